/**
 * The command `wisp generate`: streams one answer into the terminal.
 *
 * @module
 */

import { fstatSync, readFileSync } from "node:fs";
import { EngineError } from "../../errors.ts";
import type { FinishReason, GenerationRequest } from "../../generation.ts";
import type { SamplingParams } from "../../sampling_params.ts";
import { formatOptions, OptionError, parseOptions } from "../options/option_parser.ts";
import { GENERATE_OPTIONS, type GenerateOptions } from "../options/options.ts";
import { quietReport } from "../serve/start_report.ts";
import type { CommandContext, Input } from "./command_context.ts";

const USAGE = `Usage: wisp generate [options] "prompt"

Streams the model's answer to the prompt. What is piped in stands behind it, as in
  cat file | wisp generate "Summarise"
and is the prompt where none is given. The exit code is 0 only for an answer that is whole: one that ends
at its limit of tokens is, unless it had to be JSON.
`;

/** Bytes of what is piped in at most; no context holds as much. */
const LONGEST_INPUT = 2 ** 26;

/** The answer is not what was asked for. */
class IncompleteAnswerError extends EngineError {
  readonly code = "incomplete_answer";
}

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
  const prompt = await readPrompt(given, stdin);
  const jsonSchema = options.jsonSchema === undefined ? undefined : readSchema(options.jsonSchema);
  const engine = await startEngine(options, quietReport(stderr));
  try {
    const request = requestFor({ prompt, jsonSchema }, options, engine.model.defaults);
    let finish: FinishReason | null = null;
    for await (const chunk of engine.generate(request)) {
      stdout.write(chunk.text);
      finish = chunk.finish;
    }
    stdout.write("\n");
    requireWhole(finish, jsonSchema !== undefined);
  } finally {
    await engine.close();
  }
}

/** The argument, and behind it all of what is piped in, without the end of its last line. */
async function readPrompt(given: string | undefined, stdin: Input | undefined): Promise<string> {
  const piped = stdin !== undefined && isPiped(stdin, given) ? await readInput(stdin) : "";
  const prompt = [given ?? "", piped].filter((part) => part !== "").join("\n\n");
  if (prompt === "") throw new OptionError("Cannot generate: a prompt is missing");
  return prompt;
}

/**
 * Beside a prompt only what a shell pipes in or reads from a file is waited for: a program that starts
 * this one may leave its input open for ever.
 */
function isPiped({ isTTY, fd }: Input, given: string | undefined): boolean {
  if (isTTY === true) return false;
  if (given === undefined || fd === undefined) return true;
  const input = fstatSync(fd);
  return input.isFIFO() || input.isFile();
}

async function readInput(stdin: Input): Promise<string> {
  const decoder = new TextDecoder();
  let text = "";
  for await (const piece of stdin) {
    text += typeof piece === "string" ? piece : decoder.decode(piece, { stream: true });
    if (text.length <= LONGEST_INPUT) continue;
    throw new OptionError("Cannot read the standard input: it is longer than any prompt");
  }
  return (text + decoder.decode()).replace(/\r?\n$/, "");
}

/** The text of the file; the engine says what is wrong with the schema. */
function readSchema(file: string): string {
  try {
    const text = readFileSync(file, "utf8");
    JSON.parse(text);
    return text;
  } catch (cause) {
    const { message } = cause as Error;
    throw new OptionError(`Cannot use option --json-schema ${file}: ${message}`, { cause });
  }
}

function requireWhole(finish: FinishReason | null, isJson: boolean): void {
  if (finish?.type === "stop" || (finish?.type === "length" && !isJson)) return;
  const reason =
    finish?.type === "length"
      ? `it is cut off at ${finish.length} tokens, and no JSON yet`
      : (finish?.message ?? "it has no end");
  throw new IncompleteAnswerError(`Cannot complete the answer: ${reason}`);
}

interface Wish {
  readonly prompt: string;
  /** As JSON text; undefined for any text. */
  readonly jsonSchema: string | undefined;
}

function requestFor(
  { prompt, jsonSchema }: Wish,
  { raw, maxNewTokens, temperature, prefixCacheDir }: GenerateOptions,
  defaults: SamplingParams,
): GenerationRequest {
  const sampling = {
    ...defaults,
    maxNewTokens: maxNewTokens ?? null,
    ...(temperature !== undefined && { temperature }),
    ...(jsonSchema !== undefined && { jsonSchema }),
  };
  // No second request of this process will show what is worth storing.
  const storePrefix = prefixCacheDir !== undefined;
  if (raw) return { prompt, sampling, storePrefix };
  return { messages: [{ role: "user", content: prompt }], sampling, storePrefix };
}
