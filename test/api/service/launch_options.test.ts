/** Specification 4.3 and 4.4: options of the launcher, with the values that are shown for them. */
import { describe, expect, test } from "vitest";
import { formatOptions, parseOptions } from "../../../src/node/options/option_parser.ts";
import { LAUNCH_OPTIONS, type LaunchOptions } from "../../../src/node/options/options.ts";

const launch = (args: readonly string[]) => parseOptions(LAUNCH_OPTIONS, args).values;

describe("options with an effect", () => {
  test.each<[readonly string[], Partial<LaunchOptions>]>([
    [["--model-path", "dir"], { modelPath: "dir" }],
    [["--model", "dir"], { modelPath: "dir" }],
    [["--host", "0.0.0.0"], { host: "0.0.0.0" }],
    [["--port", "30000"], { port: 30000 }],
    [["--trust-remote-code"], { trustRemoteCode: true }],
    [["--mem-fraction-static", "0.849"], { memFractionStatic: 0.849 }],
    [["--context-length", "32768"], { contextLength: 32768 }],
    [["--disable-chunked-prefix-cache"], { disableChunkedPrefixCache: true }],
    [["--quantization", "fp8"], { quantization: "fp8" }],
    [["--kv-cache-dtype", "fp8_e4m3"], { kvCacheDtype: "fp8_e4m3" }],
    [["--disable-cuda-graph"], { disableCudaGraph: true }],
    [["--cuda-graph-bs", "1", "2", "48"], { decodeBuckets: [1, 2, 48] }],
    [["--cuda-graph-max-bs", "64"], { maxDecodeBucket: 64 }],
    [["--max-running-requests", "2048"], { maxRunningRequests: 2048 }],
    [["--tool-call-parser", "deepseekv3"], { toolCallParser: "deepseekv3" }],
    [["--chat-template", "t.jinja"], { chatTemplate: "t.jinja" }],
    [["--grammar-backend", "xgrammar"], { grammarBackend: "xgrammar" }],
    [["--chunked-prefill-size", "524288"], { chunkedPrefillSize: 524288 }],
    [["--max-prefill-tokens", "32768"], { maxPrefillTokens: 32768 }],
    [["--page-size", "64"], { pageSize: 64 }],
    [["--dist-timeout", "3600"], { distTimeout: 3600 }],
    [["--dist-init-addr", "10.0.0.1:20102"], { distInitAddr: "10.0.0.1:20102" }],
    [["--nnodes", "2"], { nnodes: 2 }],
    [["--node-rank", "1"], { nodeRank: 1 }],
    [["--disable-radix-cache"], { disableRadixCache: true }],
    [["--attention-backend", "flashinfer"], { attentionBackend: "flashinfer" }],
    [["--speculative-algorithm", "EAGLE"], { speculativeAlgorithm: "EAGLE" }],
    [["--speculative-draft-model-path", "draft"], { speculativeDraftModelPath: "draft" }],
    [["--speculative-num-steps", "1"], { speculativeNumSteps: 1 }],
    [["--speculative-eagle-topk", "1"], { speculativeEagleTopk: 1 }],
    [["--speculative-num-draft-tokens", "2"], { speculativeNumDraftTokens: 2 }],
    [["--enable-torch-compile"], { enableTorchCompile: true }],
    [["--dp", "8"], { dpSize: 8 }],
    [["--dp-size", "16"], { dpSize: 16 }],
    [["--enable-dp-attention"], { enableDpAttention: true }],
    [["--enable-dp-lm-head"], { enableDpLmHead: true }],
    [["--moe-dense-tp-size", "1"], { moeDenseTpSize: 1 }],
    [["--enable-two-batch-overlap"], { twoBatchOverlap: true }],
    [["--load-balance-method", "minimum_tokens"], { loadBalanceMethod: "minimum_tokens" }],
    [["--ep-dispatch-algorithm", "dynamic"], { epDispatchAlgorithm: "dynamic" }],
    [["--eplb-algorithm", "deepseek"], { eplbAlgorithm: "deepseek" }],
    [["--ep-num-redundant-experts", "32"], { epNumRedundantExperts: 32 }],
    [["--init-expert-location", "location.json"], { initExpertLocation: "location.json" }],
  ])("%j", (args, values) => {
    expect(launch(args)).toMatchObject(values);
  });

  test("the grammar backend is outlines unless told otherwise", () => {
    expect(launch([]).grammarBackend).toBe("outlines");
  });
});

test("--help has every option, with what it is for", () => {
  const help = formatOptions(LAUNCH_OPTIONS);
  for (const row of Object.values(LAUNCH_OPTIONS)) {
    expect(help).toContain(`  ${row.flags.join(", ")}`);
    expect(row.help.length).toBeGreaterThan(8);
  }
});
