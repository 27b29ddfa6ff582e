/**
 * Options of memory and batching, one row each.
 *
 * @module
 */
import { SCHEDULE_POLICIES } from "../../engine/schedule/schedule_policy.ts";
import { KV_CACHE_DTYPES } from "./kv_cache_dtype.ts";
import type { OptionTable } from "./option_parser.ts";

export const MEMORY = "Memory and batching";

export const MEMORY_OPTIONS = {
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
      "already FP8, but to f32",
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
    help: "sequences decoded together at most; more than the adapter does become what it does",
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
    help: "prompt tokens of one step at most; -1 is as many as a step takes, which the start says",
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
  prefixCacheDir: {
    flags: ["--prefix-cache-dir"],
    kind: "string",
    value: "DIR",
    help:
      "folder that keeps cached prefixes beyond the end of the process: those that a second request " +
      "has used, what requests ask for by store_prefix, and the prompts of wisp generate. Processes " +
      "may share it; what another model, adapter or version has stored is not used",
    group: MEMORY,
  },
  prefixCacheSize: {
    flags: ["--prefix-cache-size"],
    kind: "bytes",
    value: "BYTES",
    min: 0,
    defaultText: "1G",
    help: "size of that folder at most, as 20G; the server deletes the prefixes unused for longest to store new ones",
    group: MEMORY,
  },
  disableChunkedPrefixCache: {
    flags: ["--disable-chunked-prefix-cache"],
    kind: "flag",
    default: false,
    help:
      "expand the cached prefixes of prompts in one piece, where an eighth of the memory that weights " +
      "leave holds the context, and not in chunks from SVC_CHUNKED_PREFIX_CACHE_THRESHOLD (8192) " +
      "tokens on: the same bits. For DeepSeek models; other models expand nothing",
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
    defaultText: "4 for each that may run, at least 1024",
    help:
      "answers that may wait for a place; more are refused with 503, and what asks for more at once " +
      "than may run and wait with 400",
    group: MEMORY,
  },
} as const satisfies OptionTable;
