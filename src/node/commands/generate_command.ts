/**
 * The command `wisp generate`: streams one answer into the terminal.
 *
 * @module
 */

import type { GenerationRequest, SamplingParams } from "../../generation.ts";
import { formatOptions, OptionError, parseOptions } from "../options/option_parser.ts";
import { GENERATE_OPTIONS, type GenerateOptions } from "../options/options.ts";
import { quietReport } from "../serve/start_report.ts";
import type { CommandContext, Input } from "./command_context.ts";

const USAGE = `Usage: wisp generate [options] "prompt"

Streams the model's answer to the prompt, which is read from the standard input where it is left out and
the input is no terminal.
`;

/**
 * Writes the answer to the standard output as it comes.
 *
 * @throws {OptionError} when the command line is wrong.
 * @throws {EngineError} when the model cannot be loaded or the prompt cannot be served.
 */
export async function generateCommand(
  args: readonly string[],
  { startEngine, stdout, stderr, stdin }: CommandContext,
): Promise<void> {
  const { values: options, positionals } = parseOptions(GENERATE_OPTIONS, args);
  if (options.help) {
    stdout.write(`${USAGE}\n${formatOptions(GENERATE_OPTIONS)}\n`);
    return;
  }
  const [given, surplus] = positionals;
  if (surplus !== undefined) {
    throw new OptionError(
      `Cannot use argument "${surplus}": the prompt is one argument, in quotes`,
    );
  }
  const prompt = given ?? (await readPrompt(stdin));
  const engine = await startEngine(options, quietReport(stderr));
  try {
    const request = requestFor(prompt, options, engine.model.defaults);
    for await (const chunk of engine.generate(request)) stdout.write(chunk.text);
    stdout.write("\n");
  } finally {
    await engine.close();
  }
}

/** All of what is piped in, without the end of its last line. */
async function readPrompt(stdin: Input | undefined): Promise<string> {
  const decoder = new TextDecoder();
  let text = "";
  if (stdin !== undefined && stdin.isTTY !== true) {
    for await (const piece of stdin) {
      text += typeof piece === "string" ? piece : decoder.decode(piece, { stream: true });
    }
  }
  const prompt = (text + decoder.decode()).replace(/\r?\n$/, "");
  if (prompt === "") throw new OptionError("Cannot generate: a prompt is missing");
  return prompt;
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
