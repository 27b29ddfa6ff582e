/**
 * Options of what stands around an engine that serves: the address, requests' defaults, the log,
 * metrics, the end.
 *
 * @module
 */

import { LOG_FORMATS, LOG_LEVELS } from "../observe/logger.ts";
import { OptionError, type OptionTable, type OptionValues } from "./option_parser.ts";

const SERVER = "Server";
const LOGS = "Logs and metrics";

export const SERVER_OPTIONS = {
  config: {
    flags: ["--config"],
    kind: "string",
    value: "FILE",
    help:
      "JSON file with values of these options, by their names without dashes in front, such as " +
      '{"port": 8000, "enable-metrics": true}; the command line wins',
    group: SERVER,
  },
  host: {
    flags: ["--host"],
    kind: "string",
    value: "ADDRESS",
    default: "127.0.0.1",
    help: "address to listen on; 0.0.0.0 is every network of this machine",
    group: SERVER,
  },
  port: {
    flags: ["--port"],
    kind: "integer",
    min: 0,
    max: 65535,
    default: 30000,
    help: "port to listen on; 0 takes any free one",
    group: SERVER,
  },
  servedModelName: {
    flags: ["--served-model-name"],
    kind: "strings",
    value: "NAME",
    defaultText: "its id, or its folder's name",
    help: "names of the model at /v1/models; the first one is in answers to requests that name none, and in metrics",
    group: SERVER,
  },
  streamInterval: {
    flags: ["--stream-interval"],
    kind: "integer",
    min: 1,
    default: 1,
    help:
      "tokens of one event of a stream; the first token comes at once. A request's own " +
      "sampling_params.stream_interval wins",
    group: SERVER,
  },
  preferredSamplingParams: {
    flags: ["--preferred-sampling-params"],
    kind: "object",
    value: "JSON",
    help:
      'sampling_params of requests that do not say, such as {"temperature": 0.6}; they come before ' +
      "those of the checkpoint",
    group: SERVER,
  },
  enableCacheReport: {
    flags: ["--enable-cache-report"],
    kind: "flag",
    default: false,
    help: "tell in usage.prompt_tokens_details how many prompt tokens the cache had",
    group: SERVER,
  },
  disableWebPage: {
    flags: ["--disable-web-page"],
    kind: "flag",
    default: false,
    help: "serve no page at /, where people chat with the model in a browser",
    group: SERVER,
  },
  watchdogTimeout: {
    flags: ["--watchdog-timeout"],
    kind: "number",
    value: "SECONDS",
    min: 1,
    default: 300,
    help: "how long no step may finish while there is work, before the server is not healthy",
    group: SERVER,
  },
  healthCheckTimeout: {
    flags: ["--health-check-timeout"],
    kind: "number",
    value: "SECONDS",
    min: 1,
    default: 20,
    help: "how long /health_generate waits for a token",
    group: SERVER,
  },
  sleepIdleSeconds: {
    flags: ["--sleep-idle-seconds"],
    kind: "number",
    value: "SECONDS",
    min: 1,
    max: 2_000_000,
    defaultText: "never",
    help:
      "after how long without a request the model and its cache leave the device; the next request " +
      "loads them again",
    group: SERVER,
  },
  drainTimeout: {
    flags: ["--drain-timeout"],
    kind: "number",
    value: "SECONDS",
    min: 0,
    default: 300,
    help:
      "how long a server that is told to stop waits for running requests; then they are aborted and " +
      "the exit code is 1",
    group: SERVER,
  },
  logLevel: {
    flags: ["--log-level"],
    kind: "string",
    choices: LOG_LEVELS,
    default: "info",
    help: "what is less important is not written; debug has a line for each request",
    group: LOGS,
  },
  logFormat: {
    flags: ["--log-format"],
    kind: "string",
    choices: LOG_FORMATS,
    default: "text",
    help: "text; json is one object a line; sglang adds the lines that scripts for such servers wait for",
    group: LOGS,
  },
  logRequests: {
    flags: ["--log-requests"],
    kind: "flag",
    default: false,
    help: "write a line for each request at the level info: its id, tokens, times, how it ended",
    group: LOGS,
  },
  logRequestsLevel: {
    flags: ["--log-requests-level"],
    kind: "integer",
    min: 0,
    max: 3,
    defaultText: "0",
    help:
      "1 adds sampling parameters, 2 the first 2048 characters of prompt and completion, 3 all of " +
      "them",
    group: LOGS,
  },
  decodeLogInterval: {
    flags: ["--decode-log-interval"],
    kind: "integer",
    min: 1,
    default: 40,
    help: "steps that generate from one line about them to the next",
    group: LOGS,
  },
  enableMetrics: {
    flags: ["--enable-metrics"],
    kind: "flag",
    default: false,
    help: "serve metrics for Prometheus at /metrics",
    group: LOGS,
  },
  collectTokensHistogram: {
    flags: ["--collect-tokens-histogram"],
    kind: "flag",
    default: false,
    help: "add histograms of prompt and completion lengths to the metrics",
    group: LOGS,
  },
  profileDir: {
    flags: ["--profile-dir"],
    kind: "string",
    value: "DIR",
    help:
      "folder for the traces of /start_profile, which is refused without it; a request's output_dir is " +
      "a place in it",
    group: LOGS,
  },
  profileKernels: {
    flags: ["--profile-kernels"],
    kind: "flag",
    default: false,
    help:
      "measure every launch on the GPU, which takes time, and when the server ends write how long each " +
      "kernel took, beside what the adapter can do",
    group: LOGS,
  },
} as const satisfies OptionTable;

export type ServerOptions = OptionValues<typeof SERVER_OPTIONS>;

/** @throws {OptionError} when an option needs another that is not there. */
export function requireConsistent(options: ServerOptions): void {
  const { logRequests, logRequestsLevel, enableMetrics, collectTokensHistogram } = options;
  if (logRequestsLevel !== undefined && !logRequests) {
    throw needs("logRequestsLevel", "logRequests");
  }
  if (collectTokensHistogram && !enableMetrics) {
    throw needs("collectTokensHistogram", "enableMetrics");
  }
  if (options.profileKernels && options.profileDir !== undefined) {
    throw excludes("profileKernels", "profileDir", "one profile is taken at a time");
  }
  if (options.profileKernels && options.sleepIdleSeconds !== undefined) {
    throw excludes("profileKernels", "sleepIdleSeconds", "a model that is measured never sleeps");
  }
}

function excludes(
  name: keyof ServerOptions,
  other: keyof ServerOptions,
  reason: string,
): OptionError {
  const [flag, second] = [SERVER_OPTIONS[name].flags[0], SERVER_OPTIONS[other].flags[0]];
  return new OptionError(`Cannot use option ${flag} together with ${second}: ${reason}`);
}

function needs(name: keyof ServerOptions, other: keyof ServerOptions): OptionError {
  const [flag, wanted] = [SERVER_OPTIONS[name].flags[0], SERVER_OPTIONS[other].flags[0]];
  return new OptionError(`Cannot use option ${flag} without ${wanted}: it would change nothing`);
}
