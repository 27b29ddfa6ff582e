/**
 * Every option of the commands, one row each: the parser, the help and the README's table are made
 * from these rows.
 *
 * @module
 */

import { SCHEDULE_POLICIES } from "../engine/schedule_policy.ts";
import { ADAPTER_PREFERENCES } from "./device.ts";
import { KV_CACHE_DTYPES } from "./kv_cache_dtype.ts";
import type { OptionRow, OptionTable, OptionValues } from "./option_parser.ts";
import { PLANNED_OPTIONS } from "./planned_options.ts";

const MODEL = "Model";
const MEMORY = "Memory and batching";
const SERVER = "Server";
const DEVICE = "Device";
const SAMPLING = "Generation";
const OTHER = "Other";

const REVISION = {
  flags: ["--revision"],
  kind: "string",
  value: "REVISION",
  defaultText: "main, or what stands behind @ in the id",
  help: "branch, tag or commit of a model from a hub",
  group: MODEL,
} as const satisfies OptionRow;

const ENDPOINT = {
  flags: ["--endpoint"],
  kind: "string",
  value: "URL",
  defaultText: "the variable HF_ENDPOINT, else https://huggingface.co",
  help: "address of the model hub",
  group: MODEL,
} as const satisfies OptionRow;

const HELP = {
  flags: ["--help"],
  kind: "flag",
  default: false,
  help: "print this help",
  group: OTHER,
} as const satisfies OptionRow;

/** What an engine is started with, whichever command starts it. */
export const ENGINE_OPTIONS = {
  modelPath: {
    flags: ["--model-path", "--model"],
    kind: "string",
    value: "MODEL",
    defaultText: "the small model that comes with the package",
    help: "folder of a checkpoint in the Hugging Face layout, or the id of a model that was downloaded",
    group: MODEL,
  },
  revision: REVISION,
  chatTemplate: {
    flags: ["--chat-template"],
    kind: "string",
    value: "FILE",
    defaultText: "the checkpoint's",
    help: "file with a Jinja chat template",
    group: MODEL,
  },
  chatFamily: {
    flags: ["--chat-family"],
    kind: "string",
    value: "NAME",
    defaultText: "what its chat template and config.json tell",
    help: "whose way to write conversations the model follows",
    group: MODEL,
  },
  contextLength: {
    flags: ["--context-length"],
    kind: "integer",
    min: 2,
    defaultText: "the model's",
    help: "tokens a sequence may have, prompt and completion together",
    group: MODEL,
  },
  quantization: {
    flags: ["--quantization"],
    kind: "string",
    value: "METHOD",
    defaultText: "the checkpoint's",
    help:
      "int4, int4-g32, int4-g64, int4-g128, int8 or fp8: what plain weights become while they are " +
      "loaded; any other must be what the checkpoint is. Not to be set for weights that are already FP8",
    group: MODEL,
  },
  quantizationReport: {
    flags: ["--quantization-report"],
    kind: "flag",
    default: false,
    help: "print the error of every matrix that --quantization changes, not only the largest",
    group: MODEL,
  },
  disableActivationQuantization: {
    flags: ["--disable-activation-quantization"],
    kind: "flag",
    default: false,
    help: "keep activations in full precision where an FP8 or int8 checkpoint asks to round them",
    group: MODEL,
  },
  deterministicInference: {
    flags: ["--enable-deterministic-inference"],
    kind: "flag",
    default: false,
    help:
      "run prompts in the form of attention that answers have, so that reused answers change no bit: " +
      "slower prompts for DeepSeek models, no difference for others",
    group: MODEL,
  },
  memFractionStatic: {
    flags: ["--mem-fraction-static"],
    kind: "number",
    value: "F",
    min: 0.01,
    max: 1,
    default: 0.88,
    help: "share of the device's memory for weights and KV cache",
    group: MEMORY,
  },
  deviceMemory: {
    flags: ["--device-memory"],
    kind: "bytes",
    value: "BYTES",
    min: 1,
    defaultText: "half of the machine's memory on a CPU, else by the kind of GPU",
    help: "memory of the device, as 8G or 512M: WebGPU does not tell",
    group: MEMORY,
  },
  kvCacheDtype: {
    flags: ["--kv-cache-dtype"],
    kind: "string",
    choices: KV_CACHE_DTYPES,
    default: "auto",
    help:
      "element type of the KV cache; auto is bf16, FP8 halves it. Not to be set for weights that are " +
      "already FP8",
    group: MEMORY,
  },
  maxTotalTokens: {
    flags: ["--max-total-tokens"],
    kind: "integer",
    min: 2,
    defaultText: "what fits",
    help: "tokens in the KV cache",
    group: MEMORY,
  },
  maxRunningRequests: {
    flags: ["--max-running-requests"],
    kind: "integer",
    min: 1,
    defaultText: "32, fewer on small adapters",
    help: "sequences decoded together at most",
    group: MEMORY,
  },
  pageSize: {
    flags: ["--page-size"],
    kind: "integer",
    min: 1,
    max: 256,
    default: 1,
    help: "tokens of one page of the KV cache",
    group: MEMORY,
  },
  chunkedPrefillSize: {
    flags: ["--chunked-prefill-size"],
    kind: "integer",
    min: -1,
    default: -1,
    help: "prompt tokens of one step at most; -1 is as many as a step takes",
    group: MEMORY,
  },
  maxPrefillTokens: {
    flags: ["--max-prefill-tokens"],
    kind: "integer",
    min: 1,
    default: 16384,
    help: "prompt tokens of one step beyond its first request's",
    group: MEMORY,
  },
  mixedChunks: {
    flags: ["--enable-mixed-chunk"],
    kind: "flag",
    default: false,
    help: "compute prompts and generated tokens in one step; else prompts come first",
    group: MEMORY,
  },
  disableOverlapSchedule: {
    flags: ["--disable-overlap-schedule"],
    kind: "flag",
    default: false,
    help: "prepare a step only when the one before has finished; else the GPU never waits for it",
    group: MEMORY,
  },
  decodeBuckets: {
    flags: ["--cuda-graph-bs"],
    kind: "integers",
    min: 1,
    value: "N [N ...]",
    help: "batch sizes of decode steps whose recorded launches are kept, which is what a captured graph is on WebGPU: a step is filled up with padding to the smallest that has room and its list replayed; sizes beyond the running requests are never reached; default: 1 to 8, then in growing steps to 160",
    group: MEMORY,
  },
  maxDecodeBucket: {
    flags: ["--cuda-graph-max-bs"],
    kind: "integer",
    min: 1,
    help: "the largest of them; steps of more requests are recorded anew each time",
    group: MEMORY,
  },
  disableCudaGraph: {
    flags: ["--disable-cuda-graph"],
    kind: "flag",
    default: false,
    help: "keep no lists: record every step anew, without padding",
    group: MEMORY,
  },
  disableRadixCache: {
    flags: ["--disable-radix-cache"],
    kind: "flag",
    default: false,
    help: "do not share what the cache has of a prompt's beginning",
    group: MEMORY,
  },
  schedulePolicy: {
    flags: ["--schedule-policy"],
    kind: "string",
    choices: SCHEDULE_POLICIES,
    default: "fcfs",
    help:
      "which waiting request starts next: first come, longest cached prefix, most requests that " +
      "share a prefix, longest answer, any",
    group: MEMORY,
  },
  scheduleConservativeness: {
    flags: ["--schedule-conservativeness"],
    kind: "number",
    value: "F",
    min: 0,
    default: 1,
    help: "above 1 more cache is kept free for running requests, below 1 less",
    group: MEMORY,
  },
  retractionMemory: {
    flags: ["--retraction-memory"],
    kind: "bytes",
    value: "BYTES",
    min: 0,
    default: 0,
    help:
      "host memory for the cache of requests that had to make room, as 2G: they go on from there; " +
      "what does not fit is computed again, to the same tokens",
    group: MEMORY,
  },
  maxQueuedRequests: {
    flags: ["--max-queued-requests"],
    kind: "integer",
    min: 0,
    defaultText: "no limit",
    help: "requests that may wait; more are refused with 503",
    group: MEMORY,
  },
  adapter: {
    flags: ["--adapter"],
    kind: "string",
    choices: ADAPTER_PREFERENCES,
    defaultText: "the variable WISP_ADAPTER, else auto",
    help: "GPU adapter: the best there is, or one of the drivers for the CPU",
    group: DEVICE,
  },
  randomSeed: {
    flags: ["--random-seed"],
    kind: "integer",
    min: 0,
    max: 2 ** 32 - 1,
    defaultText: "a different one at every start",
    help: "where the seeds of requests without a seed come from",
    group: OTHER,
  },
  help: HELP,
} as const satisfies OptionTable;

export const LAUNCH_OPTIONS = {
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
    kind: "string",
    value: "NAME",
    defaultText: "the model path",
    help: "name of the model at /v1/models",
    group: SERVER,
  },
  ...ENGINE_OPTIONS,
  ...PLANNED_OPTIONS,
} as const satisfies OptionTable;

/** Of `wisp serve`: those of `launch_server`, and what its download needs. */
export const SERVE_OPTIONS = {
  ...LAUNCH_OPTIONS,
  endpoint: ENDPOINT,
  offline: {
    flags: ["--offline"],
    kind: "flag",
    default: false,
    help: "download nothing, like HF_HUB_OFFLINE=1",
    group: MODEL,
  },
} as const satisfies OptionTable;

export const DOWNLOAD_OPTIONS = {
  revision: REVISION,
  endpoint: ENDPOINT,
  help: HELP,
} as const satisfies OptionTable;

export const INSPECT_OPTIONS = {
  revision: REVISION,
  deviceMemory: {
    ...ENGINE_OPTIONS.deviceMemory,
    defaultText: "8G, 24G, 80G and 141G",
    help: "memory of one device, as 80G",
  },
  memFractionStatic: ENGINE_OPTIONS.memFractionStatic,
  contextLength: ENGINE_OPTIONS.contextLength,
  concurrency: {
    flags: ["--concurrency"],
    kind: "integer",
    min: 1,
    default: 1,
    help: "sequences of that length to be cached at once",
    group: MEMORY,
  },
  json: {
    flags: ["--json"],
    kind: "flag",
    default: false,
    help: "print JSON, with sizes in bytes",
    group: OTHER,
  },
  help: HELP,
} as const satisfies OptionTable;

export const GENERATE_OPTIONS = {
  maxNewTokens: {
    flags: ["--max-new-tokens"],
    kind: "integer",
    min: 1,
    defaultText: "what the context holds",
    help: "completion tokens at most",
    group: SAMPLING,
  },
  temperature: {
    flags: ["--temperature"],
    kind: "number",
    value: "T",
    min: 0,
    defaultText: "the model's",
    help: "randomness of the choice of tokens; 0 always takes the likeliest",
    group: SAMPLING,
  },
  raw: {
    flags: ["--raw"],
    kind: "flag",
    default: false,
    help: "continue the prompt as it is, without the chat template",
    group: SAMPLING,
  },
  ...ENGINE_OPTIONS,
} as const satisfies OptionTable;

export type EngineLaunchOptions = OptionValues<typeof ENGINE_OPTIONS>;
export type LaunchOptions = OptionValues<typeof LAUNCH_OPTIONS>;
export type GenerateOptions = OptionValues<typeof GENERATE_OPTIONS>;
