/**
 * Names that options have on other servers of this kind, and what to do here instead: who comes from
 * one of those gets a sentence, and no such name is taken for the beginning of another option's.
 *
 * @module
 */

interface ForeignOption {
  readonly names: readonly string[];
  /** Completes "Cannot use option --name: ...". */
  readonly instead: string;
}

const OPENS_ALL =
  "the whole model runs on one device, which --adapter chooses, or shared out by --tp-size";
const ONE_DEVICE = "the model runs on one device";
const NO_ADAPTERS = "LoRA adapters are not supported; merge them into the checkpoint first";
const NO_IMAGES = "models that read images do so without an option, as far as they are supported";
const NO_EMBEDDINGS = "models that give embeddings are not supported";
const NO_TLS = "put a proxy in front of the server for TLS and paths";
const ALWAYS_CHUNKED = "prompts are always computed in chunks; --chunked-prefill-size bounds them";
const ALWAYS_SHARED = "prefixes are always shared; --disable-radix-cache turns that off";
const ALWAYS_BATCHED = "requests are always batched continuously";
const OF_REQUESTS = "set it in requests, or for all of them by --preferred-sampling-params";
const NO_ENGINE_CHOICE = "there is one of these here, and nothing to choose";
const FILES_ONLY = "weights are read from the safetensors files of the folder in pieces, always so";
const NO_TOKENIZER = "the tokenizer is always that of the checkpoint's folder (--model-path)";

const FOREIGN_OPTIONS: readonly ForeignOption[] = [
  {
    names: ["--device", "--main-gpu"],
    instead:
      "use --adapter, which takes auto, gpu, lavapipe or swiftshader, and --base-gpu-id for its number",
  },
  {
    names: ["--dtype", "--torch-dtype"],
    instead:
      "weights stay in the type that the checkpoint has; use --quantization to make less of them, " +
      "--numeric-class for the arithmetic",
  },
  {
    names: ["--gpu-memory-utilization", "--mem-fraction"],
    instead:
      "use --mem-fraction-static, the share of the device's memory, and --device-memory for its size",
  },
  {
    names: ["--max-model-len", "--ctx-size", "--context-size", "--max-seq-len", "--n-ctx"],
    instead: "use --context-length",
  },
  {
    names: ["--max-num-seqs", "--parallel", "--max-batch-size", "--max-concurrent-requests"],
    instead: "use --max-running-requests",
  },
  {
    names: ["--max-num-batched-tokens", "--batch-size", "--ubatch-size"],
    instead: "use --chunked-prefill-size for the prompt tokens of a step",
  },
  { names: ["--block-size"], instead: "use --page-size" },
  { names: ["--num-gpu-blocks-override"], instead: "use --max-total-tokens" },
  { names: ["--enforce-eager"], instead: "use --disable-cuda-graph" },
  {
    names: ["--cuda-graph-sizes", "--cudagraph-capture-sizes", "--torch-compile-max-bs"],
    instead: "use --cuda-graph-bs",
  },
  { names: ["--enable-prefix-caching", "--cache-prompt"], instead: ALWAYS_SHARED },
  { names: ["--no-enable-prefix-caching"], instead: "use --disable-radix-cache" },
  { names: ["--enable-chunked-prefill"], instead: ALWAYS_CHUNKED },
  { names: ["--cont-batching"], instead: ALWAYS_BATCHED },
  {
    names: ["--enable-hierarchical-cache", "--kv-transfer-config", "--slot-save-path"],
    instead: "use --prefix-cache-dir to keep cached prefixes in a folder",
  },
  {
    names: ["--swap-space", "--hicache-ratio", "--hicache-size"],
    instead: "use --retraction-memory for the cache of requests that make room",
  },
  {
    names: ["--cpu-offload-gb", "--n-cpu-moe", "--cpu-moe"],
    instead: "all weights are in the device's memory; use --quantization to make them smaller",
  },
  {
    names: ["--n-gpu-layers", "--gpu-layers", "--split-mode", "--tensor-split"],
    instead: OPENS_ALL,
  },
  { names: ["--cache-type-k", "--cache-type-v"], instead: "use --kv-cache-dtype for both" },
  { names: ["--flash-attn", "--flash-attention"], instead: "use --attention-backend" },
  { names: ["--scheduling-policy"], instead: "use --schedule-policy" },
  { names: ["--seed"], instead: "use --random-seed" },
  {
    names: ["--tokenizer", "--tokenizer-path", "--tokenizer-mode", "--tokenizer-revision"],
    instead: NO_TOKENIZER,
  },
  {
    names: ["--skip-tokenizer-init"],
    instead: "the tokenizer is always loaded; requests may bring input_ids in place of text",
  },
  {
    names: ["--load-format", "--model-loader-extra-config", "--mlock", "--no-mmap"],
    instead: FILES_ONLY,
  },
  {
    names: ["--download-dir"],
    instead: "set the variable HF_HUB_CACHE to the folder for downloaded models",
  },
  {
    names: ["--hf-repo", "--model-id", "--hf-overrides", "--json-model-override-args"],
    instead: "name the model by --model-path; its config.json is used as it is",
  },
  { names: ["--code-revision"], instead: "use --revision; no code of a model is ever run" },
  { names: ["--alias"], instead: "use --served-model-name" },
  {
    names: ["--sampling-backend", "--moe-runner-backend", "--mm-attention-backend"],
    instead: NO_ENGINE_CHOICE,
  },
  { names: ["--guided-decoding-backend"], instead: "use --grammar-backend" },
  {
    names: ["--grammar", "--grammar-file", "--json-schema", "--json-schema-file"],
    instead: "a request brings its own, as ebnf or json_schema",
  },
  { names: ["--num-scheduler-steps", "--num-continuous-decode-steps"], instead: ALWAYS_BATCHED },
  {
    names: ["--enable-auto-tool-choice", "--jinja"],
    instead: "use --tool-call-parser; chat templates are always run",
  },
  { names: ["--enable-reasoning", "--reasoning-format"], instead: "use --reasoning-parser" },
  { names: ["--chat-template-file"], instead: "use --chat-template, which takes a file" },
  {
    names: ["--generation-config", "--override-generation-config"],
    instead: "the checkpoint's file is used; --preferred-sampling-params comes before it",
  },
  {
    names: ["--temp", "--temperature", "--top-k", "--top-p", "--min-p", "--repeat-penalty"],
    instead: OF_REQUESTS,
  },
  { names: ["--n-predict", "--max-tokens", "--max-new-tokens"], instead: OF_REQUESTS },
  {
    names: ["--api-key-file"],
    instead:
      'use --api-key, or --config with a file that only the server can read: {"api-key": ..}',
  },
  { names: ["--allow-origins", "--cors-allow-origins"], instead: "use --allowed-origins" },
  {
    names: ["--ssl-keyfile", "--ssl-certfile", "--ssl-key-file", "--ssl-cert-file", "--root-path"],
    instead: NO_TLS,
  },
  {
    names: ["--uvicorn-log-level", "--log-level-http", "--verbose", "--log-disable"],
    instead: "use --log-level",
  },
  {
    names: ["--disable-log-requests", "--no-enable-log-requests", "--disable-log-stats"],
    instead: "requests are logged only with --log-requests; --log-level warning leaves out steps",
  },
  { names: ["--metrics"], instead: "use --enable-metrics" },
  { names: ["--timeout"], instead: "use --watchdog-timeout or --drain-timeout" },
  {
    names: ["--pipeline-parallel-size", "--pp-size", "--disable-custom-all-reduce"],
    instead: ONE_DEVICE,
  },
  { names: ["--enable-deepep-moe"], instead: "use --moe-a2a-backend deepep" },
  {
    names: ["--enable-expert-parallel", "--enable-ep-moe"],
    instead: "ranks have whole experts anyway; use --ep-size, as many as --tp-size",
  },
  {
    names: ["--nccl-port", "--enable-p2p-check", "--distributed-executor-backend"],
    instead: ONE_DEVICE,
  },
  {
    names: ["--threads", "--threads-batch", "--numa"],
    instead: "set the variable LP_NUM_THREADS for lavapipe; GPUs need none",
  },
  {
    names: ["--enable-lora", "--lora-paths", "--lora", "--lora-modules", "--max-loras"],
    instead: NO_ADAPTERS,
  },
  { names: ["--mmproj", "--limit-mm-per-prompt", "--enable-multimodal"], instead: NO_IMAGES },
  {
    names: ["--is-embedding", "--embedding", "--embeddings", "--task", "--runner"],
    instead: NO_EMBEDDINGS,
  },
];

const INSTEAD: ReadonlyMap<string, string> = new Map(
  FOREIGN_OPTIONS.flatMap(({ names, instead }) => names.map((name) => [name, instead] as const)),
);

/** All of them. */
export const FOREIGN_NAMES: readonly string[] = [...INSTEAD.keys()];

/** What to do here in place of another server's option; undefined for a name that is none. */
export function insteadOf(flag: string): string | undefined {
  return INSTEAD.get(flag);
}
