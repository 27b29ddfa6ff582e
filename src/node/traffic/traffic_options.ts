/**
 * The options of `wisp bench_serving`, one row each.
 *
 * @module
 */
import { OptionError, type OptionTable, type OptionValues } from "../options/option_parser.ts";
import { TRAFFIC_BACKENDS } from "./backends.ts";

const SERVER = "Server";
const LOAD = "Load";
const OTHER = "Other";

export const BENCH_SERVING_OPTIONS = {
  backend: {
    flags: ["--backend"],
    kind: "string",
    choices: TRAFFIC_BACKENDS,
    default: "native",
    help: "interface to use: native is /generate, openai is /v1/completions, openai-chat is /v1/chat/completions",
    group: SERVER,
  },
  baseUrl: {
    flags: ["--base-url"],
    kind: "string",
    value: "URL",
    defaultText: "http://HOST:PORT",
    help: "where the server is, in place of --host and --port",
    group: SERVER,
  },
  host: {
    flags: ["--host"],
    kind: "string",
    value: "ADDRESS",
    default: "127.0.0.1",
    help: "address of the server",
    group: SERVER,
  },
  port: {
    flags: ["--port"],
    kind: "integer",
    min: 1,
    max: 65535,
    default: 30000,
    help: "its port",
    group: SERVER,
  },
  model: {
    flags: ["--model"],
    kind: "string",
    value: "NAME",
    defaultText: "the first one of /v1/models",
    help: "what the server calls the model; the backend native only writes it into --output-file",
    group: SERVER,
  },
  apiKey: {
    flags: ["--api-key"],
    kind: "string",
    value: "KEY",
    defaultText: "the variable OPENAI_API_KEY, else none",
    help: "key to send as Authorization: Bearer KEY",
    group: SERVER,
  },
  timeout: {
    flags: ["--timeout"],
    kind: "number",
    value: "SECONDS",
    min: 0.001,
    max: 2_000_000,
    default: 600,
    help: "how long nothing may come of an answer before its request has failed",
    group: SERVER,
  },
  flushCache: {
    flags: ["--flush-cache"],
    kind: "flag",
    default: false,
    help: "empty the server's prefix cache first: the same seed makes the same prompts",
    group: SERVER,
  },
  datasetName: {
    flags: ["--dataset-name"],
    kind: "string",
    choices: ["random"],
    default: "random",
    help: "prompts: random token ids, or random words for chats",
    group: LOAD,
  },
  numPrompts: {
    flags: ["--num-prompts"],
    kind: "integer",
    min: 1,
    default: 1000,
    help: "requests to send",
    group: LOAD,
  },
  randomInputLen: {
    flags: ["--random-input-len"],
    kind: "integer",
    min: 1,
    default: 1024,
    help: "tokens of a prompt; of a chat about as many, its template's included",
    group: LOAD,
  },
  randomOutputLen: {
    flags: ["--random-output-len"],
    kind: "integer",
    min: 1,
    default: 1024,
    help: "tokens of an answer",
    group: LOAD,
  },
  randomRangeRatio: {
    flags: ["--random-range-ratio"],
    kind: "number",
    value: "R",
    min: 0,
    max: 1,
    default: 1,
    help: "shortest of both lengths as a share of the longest; any between them is equally likely",
    group: LOAD,
  },
  requestRate: {
    flags: ["--request-rate"],
    kind: "string",
    value: "RATE",
    default: "inf",
    help: "requests a second on average, at random times; inf sends all at once",
    group: LOAD,
  },
  maxConcurrency: {
    flags: ["--max-concurrency"],
    kind: "integer",
    min: 1,
    defaultText: "all",
    help: "requests that may run at once; the rest wait before they are sent",
    group: LOAD,
  },
  warmupRequests: {
    flags: ["--warmup-requests"],
    kind: "integer",
    min: 0,
    default: 1,
    help: "requests to send before the measurement",
    group: LOAD,
  },
  disableIgnoreEos: {
    flags: ["--disable-ignore-eos"],
    kind: "flag",
    default: false,
    help: "let the model end its answers; needed for servers without the field ignore_eos",
    group: LOAD,
  },
  extraRequestBody: {
    flags: ["--extra-request-body"],
    kind: "object",
    value: "JSON",
    help: 'further fields of each request, such as {"top_p": 0.9}',
    group: LOAD,
  },
  seed: {
    flags: ["--seed"],
    kind: "integer",
    min: 0,
    max: 2 ** 32 - 1,
    default: 1,
    help: "where prompts and times of arrival come from",
    group: LOAD,
  },
  outputFile: {
    flags: ["--output-file"],
    kind: "string",
    value: "FILE",
    help: "file to append the options and figures to, as one line of JSON",
    group: OTHER,
  },
  help: {
    flags: ["--help"],
    kind: "flag",
    default: false,
    help: "print this help",
    group: OTHER,
  },
} as const satisfies OptionTable;

export type BenchServingOptions = OptionValues<typeof BENCH_SERVING_OPTIONS>;

/** @throws {OptionError} when it is neither a rate above 0 nor inf. */
export function readRequestRate(text: string): number {
  const rate = text === "inf" ? Number.POSITIVE_INFINITY : Number(text);
  if (rate > 0) return rate;
  throw new OptionError(
    `Cannot use option --request-rate ${text}: it must be a number above 0, or inf`,
  );
}

/** @throws {OptionError} when it is no address of a server. */
export function readBaseUrl({ baseUrl, host, port }: BenchServingOptions): string {
  if (baseUrl === undefined) return `http://${host.includes(":") ? `[${host}]` : host}:${port}`;
  const isAddress = URL.canParse(baseUrl) && /^https?:$/.test(new URL(baseUrl).protocol);
  if (isAddress) return baseUrl.replace(/\/+$/, "");
  throw new OptionError(
    `Cannot use option --base-url ${baseUrl}: it must be an address, as http://127.0.0.1:30000`,
  );
}
