/** Every option of a model's start is one of the engine's: none is read and left behind. */
import { mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, describe, expect, test, vi } from "vitest";
import { Engine } from "../../../src/engine/engine.ts";
import type { compileKernels } from "../../../src/engine/load/compile_kernels.ts";
import { parseOptions } from "../../../src/node/options/option_parser.ts";
import {
  COMPILE_OPTIONS,
  type ENGINE_OPTIONS,
  LAUNCH_OPTIONS,
} from "../../../src/node/options/options.ts";
import { compileModel } from "../../../src/node/serve/compile_model.ts";
import { startEngine } from "../../../src/node/serve/start_engine.ts";
import { quietReport } from "../../../src/node/serve/start_report.ts";
import { randomGqa } from "../../support/checkpoints/random_gqa.ts";

const folder = mkdtempSync(join(tmpdir(), "wisp-start-"));
const template = join(folder, "template.jinja");
writeFileSync(template, "{{ messages }}");
/** Of weights that are not FP8 already. */
const plain = randomGqa();
for (const { name, size } of await plain.list()) {
  writeFileSync(join(folder, name), await plain.read(name, 0, size));
}
afterAll(() => rmSync(folder, { recursive: true }));

/** Of other things than the engine: where the model and the device come from, and what is printed. */
type Elsewhere =
  | "modelPath"
  | "revision"
  | "help"
  | "adapter"
  | "baseGpuId"
  | "gpuIdStep"
  | "enableTorchCompile"
  | "deepepConfig"
  | "quantizationReport";

interface Row {
  readonly args: readonly string[];
  /** Without which the option cannot be given. */
  readonly beside?: readonly string[];
}

const dir = ["--prefix-cache-dir", folder];
const ROWS: Readonly<Record<Exclude<keyof typeof ENGINE_OPTIONS, Elsewhere>, Row>> = {
  chatTemplate: { args: ["--chat-template", template] },
  chatFamily: { args: ["--chat-family", "chatml"] },
  contextLength: { args: ["--context-length", "77"] },
  allowAutoTruncate: { args: ["--allow-auto-truncate"] },
  quantization: { args: ["--quantization", "int8"] },
  numericClass: { args: ["--numeric-class", "fma128"] },
  disableActivationQuantization: { args: ["--disable-activation-quantization"] },
  deterministicInference: { args: ["--enable-deterministic-inference"] },
  attentionBackend: { args: ["--attention-backend", "portable"] },
  prefillAttentionBackend: { args: ["--prefill-attention-backend", "portable"] },
  decodeAttentionBackend: { args: ["--decode-attention-backend", "portable"] },
  grammarBackend: { args: ["--grammar-backend", "none"] },
  jsonWhitespace: { args: ["--json-whitespace", "3"] },
  jsonDialect: { args: ["--json-dialect", "draft-07"] },
  jsonUnknown: { args: ["--json-unknown", "refuse"] },
  jsonOrder: { args: ["--json-order", "schema"] },
  jsonJump: { args: ["--json-jump", "off"] },
  memFractionStatic: { args: ["--mem-fraction-static", "0.5"] },
  deviceMemory: { args: ["--device-memory", "3000000000"] },
  kvCacheDtype: { args: ["--kv-cache-dtype", "fp8_e4m3"], beside: ["--model", folder] },
  maxTotalTokens: { args: ["--max-total-tokens", "512"] },
  maxRunningRequests: { args: ["--max-running-requests", "3"] },
  pageSize: { args: ["--page-size", "4"] },
  chunkedPrefillSize: { args: ["--chunked-prefill-size", "48"] },
  maxPrefillTokens: { args: ["--max-prefill-tokens", "96"] },
  mixedChunks: { args: ["--enable-mixed-chunk"] },
  disableOverlapSchedule: { args: ["--disable-overlap-schedule"] },
  decodeBuckets: { args: ["--cuda-graph-bs", "1", "3"] },
  maxDecodeBucket: { args: ["--cuda-graph-max-bs", "5"] },
  disableCudaGraph: { args: ["--disable-cuda-graph"] },
  disableRadixCache: { args: ["--disable-radix-cache"] },
  prefixCacheDir: { args: dir },
  prefixCacheSize: { args: ["--prefix-cache-size", "1000000"], beside: dir },
  disableChunkedPrefixCache: { args: ["--disable-chunked-prefix-cache"] },
  schedulePolicy: { args: ["--schedule-policy", "lof"] },
  scheduleConservativeness: { args: ["--schedule-conservativeness", "0.25"] },
  retractionMemory: { args: ["--retraction-memory", "1000000"] },
  maxQueuedRequests: { args: ["--max-queued-requests", "9"] },
  imageAlpha: { args: ["--image-alpha", "white"] },
  imageCacheMemory: { args: ["--image-cache-memory", "1000000"] },
  speculativeAlgorithm: { args: ["--speculative-algorithm", "NGRAM"] },
  speculativeDraftModelPath: { args: ["--speculative-draft-model-path", "draft"] },
  speculativeDraftModelRevision: { args: ["--speculative-draft-model-revision", "v2"] },
  speculativeNumSteps: { args: ["--speculative-num-steps", "2"] },
  speculativeEagleTopk: { args: ["--speculative-eagle-topk", "1"] },
  speculativeNumDraftTokens: { args: ["--speculative-num-draft-tokens", "3"] },
  speculativeAcceptThresholdSingle: { args: ["--speculative-accept-threshold-single", "0.5"] },
  speculativeAcceptThresholdAcc: { args: ["--speculative-accept-threshold-acc", "0.5"] },
  speculativeNgramMinMatchWindowSize: {
    args: ["--speculative-ngram-min-match-window-size", "3"],
  },
  speculativeNgramMaxMatchWindowSize: {
    args: ["--speculative-ngram-max-match-window-size", "9"],
  },
  speculativeAdaptive: { args: ["--speculative-adaptive", "off"] },
  tpSize: { args: ["--tp", "2"] },
  epSize: { args: ["--ep-size", "2"] },
  twoBatchOverlap: { args: ["--enable-two-batch-overlap"], beside: ["--tp", "2"] },
  moeDenseTpSize: { args: ["--moe-dense-tp-size", "1"] },
  epNumRedundantExperts: { args: ["--ep-num-redundant-experts", "2"] },
  initExpertLocation: { args: ["--init-expert-location", '{"logical_count": [[1]]}'] },
  eplbAlgorithm: { args: ["--eplb-algorithm", "deepseek_vec"] },
  enableEplb: { args: ["--enable-eplb"] },
  eplbIterations: {
    args: ["--eplb-rebalance-num-iterations", "7"],
    beside: ["--enable-eplb"],
  },
  eplbLayersPerChunk: {
    args: ["--eplb-rebalance-layers-per-chunk", "2"],
    beside: ["--enable-eplb"],
  },
  eplbThreshold: {
    args: ["--eplb-min-rebalancing-utilization-threshold", "0.5"],
    beside: ["--enable-eplb"],
  },
  expertRecorderMode: { args: ["--expert-distribution-recorder-mode", "per_token"] },
  moeA2aBackend: { args: ["--moe-a2a-backend", "deepep"] },
  deepepMode: {
    args: ["--deepep-mode", "low_latency"],
    beside: ["--moe-a2a-backend", "deepep"],
  },
  expertMetrics: { args: ["--enable-expert-distribution-metrics"] },
  recordedPasses: { args: ["--expert-distribution-recorder-buffer-size", "7"] },
  epDispatchAlgorithm: { args: ["--ep-dispatch-algorithm", "fake"] },
  randomSeed: { args: ["--random-seed", "7"] },
};

const stopped = new Error("stopped before loading");
const report = quietReport({ write: () => {} });

/** What the engine is given, as text; functions and devices by their names. */
const textOf = (given: unknown) =>
  JSON.stringify(given, (_, value) => (typeof value === "function" ? value.name : value));

async function givenToEngine(args: readonly string[]): Promise<string> {
  const load = vi.spyOn(Engine, "load").mockRejectedValue(stopped);
  await expect(startEngine(parseOptions(LAUNCH_OPTIONS, args).values, report)).rejects.toBe(
    stopped,
  );
  const [, given] = load.mock.lastCall!;
  load.mockRestore();
  return textOf(given);
}

async function givenToCompiler(args: readonly string[]): Promise<string> {
  const compile = vi.fn<typeof compileKernels>().mockRejectedValue(stopped);
  const { values } = parseOptions(COMPILE_OPTIONS, args);
  await expect(compileModel(values, report, compile)).rejects.toBe(stopped);
  const [, given] = compile.mock.lastCall!;
  return textOf({ ...given, device: undefined });
}

describe.each([
  { name: "serve", options: LAUNCH_OPTIONS, given: givenToEngine },
  { name: "compile_kernels", options: COMPILE_OPTIONS, given: givenToCompiler },
])("$name", ({ options, given }) => {
  const rows = Object.entries(ROWS).filter(([key]) => Object.hasOwn(options, key));

  test.each(rows)("gives %s on", async (_, { args, beside = [] }) => {
    expect(await given([...beside, ...args])).not.toBe(await given(beside));
  });
});

test("an attention backend that takes prefixes in one piece is given so", async () => {
  const chunks = async (name: string) =>
    JSON.parse(await givenToEngine(["--attention-backend", name])).chunkedPrefix;
  expect([await chunks("triton"), await chunks("fa3")]).toEqual([false, true]);
});

test("kernels are compiled for so many ranks", async () => {
  const ranks = async (...args: string[]) => JSON.parse(await givenToCompiler(args)).communicator;
  expect(await ranks()).toMatchObject({ rank: 0, size: 1 });
  expect(await ranks("--tp", "2")).toMatchObject({ rank: 0, size: 2 });
});
