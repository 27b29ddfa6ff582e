/**
 * The command `wisp bench_serving`: sends traffic to a server and prints what that came to.
 *
 * @module
 */
import { appendFile } from "node:fs/promises";
import { Agent } from "node:http";
import { Agent as SecureAgent } from "node:https";
import { formatOptions, OptionError, parseOptions } from "../options/option_parser.ts";
import { type TrafficPrompt, trafficBackend } from "../traffic/backends.ts";
import {
  learnTextLength,
  randomNumbers,
  randomPrompts,
  randomTokens,
} from "../traffic/random_prompts.ts";
import { runTraffic } from "../traffic/run_traffic.ts";
import {
  type RequestRecord,
  type StreamedRequestOptions,
  streamedRequest,
  TrafficError,
} from "../traffic/streamed_request.ts";
import {
  BENCH_SERVING_OPTIONS,
  type BenchServingOptions,
  readBaseUrl,
  readRequestRate,
} from "../traffic/traffic_options.ts";
import { formatTraffic, summarize } from "../traffic/traffic_report.ts";
import type { CommandContext } from "./command_context.ts";

const USAGE = `Usage: wisp bench_serving [options]

Sends a load of streamed requests to a server that runs, here or elsewhere, and prints how many
requests and tokens a second it served, and after what times: to the first token of an answer (TTFT),
per token behind the first (TPOT), between tokens (ITL), and to the end (E2E). Tokens are counted as
the server counts them. Requests that fail are counted and their reasons told, with exit code 1.
`;

/** Reasons of failures that are told, the most frequent first. */
const TOLD_REASONS = 5;

/**
 * Prints the table to the standard output.
 *
 * @throws {OptionError} when the command line is wrong.
 * @throws {TrafficError} when the server cannot be reached, and after the table when requests failed.
 */
export async function benchServingCommand(
  args: readonly string[],
  { stdout, stderr }: CommandContext,
): Promise<void> {
  const { values: options, positionals } = parseOptions(BENCH_SERVING_OPTIONS, args);
  if (options.help) {
    stdout.write(`${USAGE}\n${formatOptions(BENCH_SERVING_OPTIONS)}\n`);
    return;
  }
  if (positionals.length > 0) {
    throw new OptionError(`Cannot use argument "${positionals[0]}": only options are expected`);
  }
  const requestRate = readRequestRate(options.requestRate);
  const server = new MeasuredServer(options);
  try {
    const isNamed = options.model !== undefined || options.backend === "native";
    const model = isNamed ? options.model : await server.firstModel();
    const random = randomNumbers(options.seed);
    const send = (prompt: TrafficPrompt) => server.send(prompt, model);
    const probe = (prompt: TrafficPrompt) => send(prompt).catch(unusable);
    const prompts = randomPrompts({
      count: options.numPrompts + options.warmupRequests,
      inputLength: options.randomInputLen,
      outputLength: options.randomOutputLen,
      rangeRatio: options.randomRangeRatio,
      random,
      content: await contentFor(options, probe, random),
    });
    stderr.write(`Sending ${options.numPrompts} requests to ${server.baseUrl}\n`);
    for (const prompt of prompts.slice(options.numPrompts)) await probe(prompt);
    if (options.flushCache) await server.flushCache();

    const { maxConcurrency } = options;
    const measured = prompts.slice(0, options.numPrompts);
    const result = await runTraffic(measured, send, { requestRate, maxConcurrency, random });
    const summary = summarize(result);
    const settings = [
      ["Backend", options.backend],
      ["Traffic request rate", options.requestRate],
      ["Max request concurrency", `${maxConcurrency ?? "not set"}`],
    ];
    stdout.write(formatTraffic(summary, settings));
    if (options.outputFile !== undefined) {
      const { apiKey: _, help: __, outputFile: ___, ...told } = options;
      await appendFile(options.outputFile, `${JSON.stringify({ ...told, model, ...summary })}\n`);
    }
    requireWhole(result.failures, options.numPrompts);
  } finally {
    server.close();
  }
}

/** A server that cannot answer one request is not worth measuring. */
function unusable(error: Error): never {
  throw new TrafficError(`Cannot measure: the first request failed: ${error.message}`, {
    cause: error,
  });
}

/** Makes prompts of the form that the backend takes. */
async function contentFor(
  { backend }: BenchServingOptions,
  send: (prompt: TrafficPrompt) => Promise<RequestRecord>,
  random: () => number,
): Promise<(tokens: number, random: () => number) => TrafficPrompt["content"]> {
  if (trafficBackend(backend).takesTokens) return randomTokens;
  const count = async (content: string) => (await send({ content, maxNewTokens: 1 })).promptTokens;
  return learnTextLength(count, random);
}

/** @throws {TrafficError} naming the reasons when requests failed. */
function requireWhole(failures: readonly string[], all: number): void {
  if (failures.length === 0) return;
  const counts = new Map<string, number>();
  for (const reason of failures) counts.set(reason, (counts.get(reason) ?? 0) + 1);
  const reasons = [...counts].sort(([, a], [, b]) => b - a);
  const told = reasons.slice(0, TOLD_REASONS).map(([reason, count]) => `\n  ${count} x ${reason}`);
  const others = reasons.length - told.length;
  const more = others > 0 ? `\n  and ${others} other reasons` : "";
  throw new TrafficError(
    `Cannot measure: ${failures.length} of ${all} requests failed:${told.join("")}${more}`,
  );
}

/** The server that the traffic is for, and what it is asked beside it. */
class MeasuredServer {
  readonly baseUrl: string;
  readonly #options: BenchServingOptions;
  readonly #headers: Readonly<Record<string, string>>;
  readonly #streaming: StreamedRequestOptions;

  constructor(options: BenchServingOptions) {
    this.#options = options;
    this.baseUrl = readBaseUrl(options);
    const key = options.apiKey ?? process.env.OPENAI_API_KEY;
    this.#headers = key ? { authorization: `Bearer ${key}` } : {};
    const AgentOf = this.baseUrl.startsWith("https:") ? SecureAgent : Agent;
    this.#streaming = {
      backend: trafficBackend(options.backend),
      baseUrl: this.baseUrl,
      agent: new AgentOf({ keepAlive: true }),
      headers: this.#headers,
      timeout: options.timeout * 1000,
    };
  }

  send(prompt: TrafficPrompt, model = ""): Promise<RequestRecord> {
    const { disableIgnoreEos, extraRequestBody } = this.#options;
    const { backend } = this.#streaming;
    const body = { model, ignoreEos: !disableIgnoreEos, extra: extraRequestBody };
    return streamedRequest(backend.body(prompt, body), this.#streaming);
  }

  async firstModel(): Promise<string> {
    const { data } = (await (await this.#fetch("GET", "/v1/models")).json()) as {
      readonly data?: readonly { readonly id: string }[];
    };
    const id = data?.[0]?.id;
    if (id !== undefined) return id;
    throw new TrafficError(
      `Cannot choose a model: ${this.baseUrl}/v1/models names none; use --model`,
    );
  }

  async flushCache(): Promise<void> {
    await this.#fetch("POST", "/flush_cache");
  }

  /** @throws {TrafficError} when the answer is another than 200. */
  async #fetch(method: string, path: string): Promise<Response> {
    const url = this.baseUrl + path;
    const signal = AbortSignal.timeout(this.#options.timeout * 1000);
    const init = { method, headers: this.#headers, signal };
    const response = await fetch(url, init).catch((error: Error) => {
      const cause = error.cause instanceof Error ? error.cause.message : error.message;
      throw new TrafficError(`Cannot reach ${url}: ${cause}`, { cause: error });
    });
    if (response.ok) return response;
    throw new TrafficError(`Cannot use ${url}: it answers ${response.status}`);
  }

  close(): void {
    this.#streaming.agent.destroy();
  }
}
