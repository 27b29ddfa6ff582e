/**
 * The command `wisp generate`: streams one answer into the terminal.
 *
 * @module
 */

import type { GenerationRequest, SamplingParams } from "../generation.ts";
import type { CommandContext } from "./launch_server.ts";
import { formatOptions, OptionError, parseOptions } from "./option_parser.ts";
import { GENERATE_OPTIONS, type GenerateOptions } from "./options.ts";
import { quietReport } from "./start_report.ts";

const USAGE = `Usage: wisp generate [options] "prompt"

Streams the model's answer to the prompt.
`;

/**
 * Writes the answer to the standard output as it comes.
 *
 * @throws {OptionError} when the command line is wrong.
 * @throws {EngineError} when the model cannot be loaded or the prompt cannot be served.
 */
export async function generateCommand(
  args: readonly string[],
  { startEngine, stdout, stderr }: CommandContext,
): Promise<void> {
  const { values: options, positionals } = parseOptions(GENERATE_OPTIONS, args);
  if (options.help) {
    stdout.write(`${USAGE}\n${formatOptions(GENERATE_OPTIONS)}\n`);
    return;
  }
  const [prompt, surplus] = positionals;
  if (prompt === undefined) throw new OptionError("Cannot generate: a prompt is missing");
  if (surplus !== undefined) {
    throw new OptionError(
      `Cannot use argument "${surplus}": the prompt is one argument, in quotes`,
    );
  }
  const engine = await startEngine(options, quietReport(stderr));
  try {
    const request = requestFor(prompt, options, engine.model.defaults);
    for await (const chunk of engine.generate(request)) stdout.write(chunk.text);
    stdout.write("\n");
  } finally {
    await engine.close();
  }
}

function requestFor(
  prompt: string,
  { raw, maxNewTokens, temperature, prefixCacheDir }: GenerateOptions,
  defaults: SamplingParams,
): GenerationRequest {
  const sampling = {
    ...defaults,
    maxNewTokens: maxNewTokens ?? null,
    ...(temperature !== undefined && { temperature }),
  };
  // No second request of this process will show what is worth storing.
  const storePrefix = prefixCacheDir !== undefined;
  if (raw) return { prompt, sampling, storePrefix };
  return { messages: [{ role: "user", content: prompt }], sampling, storePrefix };
}
