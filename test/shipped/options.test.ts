/**
 * Every option of docs/options.md with the installed program: it works, or the parser refuses it and
 * names it.
 *
 * Two servers take between them all options that work, and the checks of an option look for its effect.
 */

import { readdirSync } from "node:fs";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { withoutKnownWarnings } from "../../src/node/device/dawn_warnings.ts";
import { LAUNCH_OPTIONS } from "../../src/node/options/options.ts";
import { EMBEDDED_MODEL } from "../support/checkpoints/embedded_model.ts";
import { exchange } from "../support/server/raw_client.ts";
import { until } from "../support/until.ts";
import { disaggregationTests } from "./support/disaggregation_options.ts";
import { expertTests } from "./support/expert_options.ts";
import { jsonTests } from "./support/json_options.ts";
import { hasPage, reasoningOf } from "./support/option_effects.ts";
import { firstArguments, secondArguments } from "./support/option_servers.ts";
import { rankTests } from "./support/rank_options.ts";
import type { Answer } from "./support/server.ts";
import { speculationTests } from "./support/speculation_options.ts";
import { leavesAnswersUnread } from "./support/unread_answer.ts";
import {
  adapterName,
  type ServingWisp,
  scratch,
  serveWisp,
  stopAll,
  wisp,
} from "./support/wisp.ts";

const KEY = { authorization: "Bearer KEY" };
const ADMIN = { authorization: "Bearer ADMIN" };
const GREEDY = { temperature: 0, ignore_eos: true };

let first: ServingWisp;
let second: ServingWisp;
const folders = { profiles: "", prefixes: "" };

async function generate(server: ServingWisp, body: object): Promise<Answer> {
  const response = await server.post("/generate", body, KEY);
  expect(response.status).toBe(200);
  return (await response.json()) as Answer;
}

async function info(server: ServingWisp): Promise<Readonly<Record<string, unknown>>> {
  return (await server.get("/get_server_info", KEY)).json() as Promise<Record<string, unknown>>;
}

/** Log-probabilities of a greedy answer. */
async function logprobs(server: ServingWisp) {
  const sampling_params = { ...GREEDY, max_new_tokens: 8 };
  const body = { text: "Hello", sampling_params, return_logprob: true };
  return (await generate(server, body)).meta_info.output_token_logprobs!.map(([value]) => value);
}

const ids = (count: number, id = 5) => new Array<number>(count).fill(id);

beforeAll(async () => {
  folders.profiles = scratch("profiles");
  folders.prefixes = scratch("prefixes");
  [first, second] = await Promise.all([
    serveWisp(firstArguments(folders)),
    serveWisp(secondArguments()),
  ]);
});

afterAll(stopAll);

/** For each option by its key: what shows that it works. */
const EFFECTS: Readonly<Record<string, () => Promise<void> | void>> = {
  host: () => expect(new URL(first.url).hostname).toBe("127.0.0.1"),
  port: () => expect(Number(new URL(first.url).port)).toBeGreaterThan(0),
  config: async () => {
    expect(await info(second)).toMatchObject({ served_model_name: "of-the-file", page_size: 4 });
  },
  servedModelName: async () => {
    const list = await (await first.get("/v1/models", KEY)).json();
    expect(list).toMatchObject({ data: [{ id: "tiny", max_model_len: 512 }, { id: "small" }] });
    expect(await info(first)).toMatchObject({ served_model_name: "tiny" });
  },
  streamInterval: async () => {
    const sampling_params = { ...GREEDY, max_new_tokens: 7 };
    const stream = await first.post("/generate", { text: "a", stream: true, sampling_params }, KEY);
    // The first token, three and three.
    expect((await stream.text()).match(/^data: \{/gm)).toHaveLength(3);
  },
  preferredSamplingParams: async () => {
    const { meta_info } = await generate(first, { text: "Who", sampling_params: {} });
    expect(meta_info.completion_tokens).toBe(5);
  },
  enableCacheReport: async () => {
    const chat = { messages: [{ role: "user", content: "Hello ".repeat(20) }], max_tokens: 1 };
    const ask = async () => (await first.post("/v1/chat/completions", chat, KEY)).json();
    await ask();
    const { usage } = (await ask()) as { usage: Record<string, { cached_tokens: number }> };
    expect(usage.prompt_tokens_details!.cached_tokens).toBeGreaterThan(0);
  },
  disableWebPage: async () => {
    await hasPage(first, true);
    await hasPage(second, false, KEY);
  },
  watchdogTimeout: () => echoed(first, "watchdog_timeout", 60),
  healthCheckTimeout: async () => {
    await echoed(first, "health_check_timeout", 5);
    expect((await first.get("/health_generate")).status).toBe(200);
  },
  logLevel: () => expect(first.output()).toMatch(/^Memory: /m),
  distTimeout: () => first.sees(/^Option --dist-timeout changes nothing/m),
  logFormat: () => {
    // What Dawn writes by itself stays where no terminal is.
    const lines = withoutKnownWarnings(second.output()).trim().split("\n");
    for (const line of lines) expect(JSON.parse(line)).toHaveProperty("level");
  },
  logRequests: async () => {
    await generate(first, { text: "A sentence for the log", rid: "logged" });
    await first.sees(/logged/);
  },
  logRequestsLevel: () => first.sees(/A sentence for the log/),
  decodeLogInterval: () => first.sees(/Decode batch\. #running-req/),
  enableMetrics: async () => {
    const page = await (await first.get("/metrics")).text();
    expect(page).toMatch(/^wisp:prompt_tokens_total\{model_name="tiny"\} [1-9]/m);
  },
  collectTokensHistogram: async () => {
    const page = await (await first.get("/metrics")).text();
    expect(page).toContain("wisp:prompt_tokens_histogram_bucket");
  },
  profileDir: async () => {
    const start = await first.post("/start_profile", { num_steps: 3 }, ADMIN);
    expect(start.status, await start.clone().text()).toBe(200);
    await generate(first, { text: "Who are you?" });
    await first.sees(/Profile: /);
    expect(readdirSync(folders.profiles)).toHaveLength(1);
  },
  apiKey: async () => {
    expect((await first.get("/v1/models")).status).toBe(401);
    expect((await first.get("/v1/models", KEY)).status).toBe(200);
  },
  adminApiKey: async () => {
    expect((await first.post("/flush_cache", {}, KEY)).status).toBe(403);
    expect((await first.post("/flush_cache", {}, ADMIN)).status).toBe(200);
  },
  allowedOrigins: async () => {
    const from = (origin: string) => first.get("/v1/models", { ...KEY, origin });
    expect((await from("https://evil.example")).status).toBe(403);
    expect((await from("https://example.org")).status).toBe(200);
  },
  allowedHosts: async () => {
    const port = Number(new URL(second.url).port);
    for (const [host, status] of [["wisp.test", 200] as const, ["evil.test", 403] as const]) {
      const text = `GET /v1/models HTTP/1.1\r\nhost: ${host}\r\nconnection: close\r\n\r\n`;
      expect((await exchange(port, [Buffer.from(text)])).status).toBe(status);
    }
  },
  allowedLocalMediaPath: async () => {
    await echoed(first, "allowed_local_media_path", folders.profiles);
    await refusedAtStart("--allowed-local-media-path", "/absent/folder");
  },
  allowedMediaDomains: async () => {
    await echoed(first, "allowed_media_domains", ["images.example.org"]);
    await refusedAtStart("--allowed-media-domains", "https://images.example.org/");
  },
  sendTimeout: () => leavesAnswersUnread(first, KEY),
  requestMemory: async () => {
    const body = { text: "a".repeat(2 ** 23) };
    expect((await second.post("/generate", body)).status).toBe(413);
  },
  maxRequestSize: async () => {
    const body = { text: "a".repeat(5000) };
    expect((await first.post("/generate", body, KEY)).status).toBe(413);
  },
  trustRemoteCode: () => echoed(first, "trust_remote_code", true),
  modelPath: async () => {
    expect((await info(first)).model_path).toMatch(/wisp-llm\/examples\/tiny-deepseek-v3$/);
    const { code, stderr } = await wisp([
      "launch_server",
      "--port",
      "0",
      "--model",
      "/no/such/folder",
    ]);
    expect([code, stderr]).toEqual([1, expect.stringContaining("/no/such/folder")]);
  },
  revision: async () => {
    const { code, stderr } = await wisp([
      "launch_server",
      "--port",
      "0",
      "--model",
      "org/m",
      "--revision",
      "v2",
    ]);
    expect([code, stderr]).toEqual([1, expect.stringContaining("wisp download org/m")]);
  },
  chatTemplate: async () => {
    // Two brackets around one character are at most four tokens.
    const chat = { messages: [{ role: "user", content: "a" }], max_tokens: 1 };
    const count = async (server: ServingWisp) => {
      const answer = await server.post("/v1/chat/completions", chat, KEY);
      return ((await answer.json()) as { usage: { prompt_tokens: number } }).usage.prompt_tokens;
    };
    expect(await count(second)).not.toBe(await count(first));
    expect(await count(second)).toBeLessThanOrEqual(4);
  },
  chatFamily: () => second.sees(/Chat family: deepseek-v3/),
  contextLength: async () => {
    expect(await info(first)).toMatchObject({ context_length: 512, max_req_input_len: 511 });
  },
  allowAutoTruncate: async () => {
    const { meta_info } = await generate(first, { input_ids: ids(900) });
    expect(meta_info.prompt_tokens).toBeLessThan(512);
    const refused = await second.post("/generate", { input_ids: ids(100_000) });
    expect(refused.status).toBe(400);
  },
  quantization: async () => {
    const { code, stderr } = await wisp(["launch_server", "--port", "0", "--quantization", "int4"]);
    expect(code).not.toBe(0);
    expect(stderr).toMatch(/quantization|int4/);
  },
  quantizationReport: () => echoed(second, "quantization_report", true),
  numericClass: () => first.sees(/Numeric class: fma128/),
  disableActivationQuantization: async () => {
    const [rounded, plain] = [await logprobs(first), await logprobs(second)];
    expect(plain).toHaveLength(rounded.length);
    expect(plain).not.toEqual(rounded);
  },
  deterministicInference: () => echoed(first, "enable_deterministic_inference", true),
  attentionBackend: () => echoed(first, "attention_backend", "portable"),
  prefillAttentionBackend: () => echoed(second, "prefill_attention_backend", "portable"),
  decodeAttentionBackend: () => echoed(second, "decode_attention_backend", "portable"),
  grammarBackend: async () => {
    const sampling_params = { ebnf: 'root ::= "yes"' };
    expect((await second.post("/generate", { text: "a", sampling_params })).status).toBe(400);
    expect((await generate(first, { text: "a", sampling_params })).text).toBe("yes");
  },
  jsonWhitespace: async () => {
    const properties = '"properties":{"a":{"enum":["b"]}},"additionalProperties":false';
    const json_schema = `{"type":"object",${properties},"required":["a"]}`;
    const sampling_params = { temperature: 1, max_new_tokens: 60, json_schema };
    const { text } = await generate(first, { text: "JSON:", sampling_params });
    expect(text).toMatch(/^\{"a":"b"/);
  },
  ...jsonTests(() => [first, second]),
  memFractionStatic: () => first.sees(/of 2\.00 GiB/),
  deviceMemory: () => first.sees(/device: 4\.00 GiB/),
  kvCacheDtype: () => echoed(first, "kv_cache_dtype", "auto"),
  maxTotalTokens: () => echoed(first, "max_total_num_tokens", 2048),
  maxRunningRequests: () => echoed(first, "max_running_requests", 4),
  maxQueuedRequests: async () => {
    const body = { text: "x", sampling_params: { ...GREEDY, max_new_tokens: 60 } };
    const all = await Promise.all(ids(16).map(() => first.post("/generate", body, KEY)));
    expect(new Set(all.map(({ status }) => status))).toEqual(new Set([200, 503]));
  },
  pageSize: () => {
    const counts = [...first.output().matchAll(/#token: (\d+)/g)].map(([, count]) => Number(count));
    expect(counts.length).toBeGreaterThan(0);
    for (const count of counts) expect(count % 8).toBe(0);
  },
  chunkedPrefillSize: async () => {
    await generate(first, { input_ids: ids(150, 7) });
    await first.sees(/#new-token: 64,/);
    const chunks = [...first.output().matchAll(/#new-token: (\d+)/g)];
    expect(Math.max(...chunks.map(([, count]) => Number(count)))).toBe(64);
  },
  maxPrefillTokens: () => echoed(first, "max_prefill_tokens", 128),
  mixedChunks: () => echoed(first, "enable_mixed_chunk", true),
  disableOverlapSchedule: () => echoed(first, "disable_overlap_schedule", true),
  decodeBuckets: () => echoed(first, "cuda_graph_bs", [1, 2, 4]),
  maxDecodeBucket: () => echoed(second, "cuda_graph_max_bs", 2),
  disableCudaGraph: async () => {
    const { code, stderr } = await wisp(["launch_server", "--disable-cuda-graph=1"]);
    expect([code, stderr]).toEqual([2, expect.stringContaining("--disable-cuda-graph")]);
    const generated = await wisp(["generate", "Who are you?", "--disable-cuda-graph"]);
    expect(generated.code, generated.stderr).toBe(0);
  },
  disableRadixCache: async () => {
    const body = { input_ids: ids(40, 9), sampling_params: { ...GREEDY, max_new_tokens: 1 } };
    const cached = async (server: ServingWisp) => {
      await generate(server, body);
      return (await generate(server, body)).meta_info.cached_tokens;
    };
    expect(await cached(first)).toBeGreaterThan(0);
    expect(await cached(second)).toBe(0);
  },
  prefixCacheDir: async () => {
    const body = { input_ids: ids(64, 11), store_prefix: true };
    await generate(first, { ...body, sampling_params: { ...GREEDY, max_new_tokens: 1 } });
    await until(() => expect(readdirSync(folders.prefixes)).not.toEqual([]));
  },
  prefixCacheSize: () => echoed(first, "prefix_cache_size", 10 * 2 ** 20),
  disableChunkedPrefixCache: () => echoed(second, "disable_chunked_prefix_cache", true),
  schedulePolicy: () => echoed(first, "schedule_policy", "lpm"),
  scheduleConservativeness: () => echoed(first, "schedule_conservativeness", 1.5),
  retractionMemory: () => echoed(first, "retraction_memory", 16 * 2 ** 20),
  // What they do is tested beside models that read images.
  imageAlpha: () => echoed(second, "image_alpha", "white"),
  imageCacheMemory: () => echoed(second, "image_cache_memory", 32 * 2 ** 20),
  speculativeAlgorithm: async () => {
    const sampling_params = { ...GREEDY, max_new_tokens: 24 };
    const body = { input_ids: ids(12, 9).flatMap((id) => [id, 5, 7]), sampling_params };
    expect((await generate(second, body)).meta_info.spec_verify_ct).toBeGreaterThan(0);
  },
  // Drafts of a model are tested beside the other algorithms.
  speculativeDraftModelPath: async () => {
    const model = ["--speculative-draft-model-path", "./nowhere"];
    const args = ["launch_server", "--port", "0", "--speculative-algorithm", "STANDALONE"];
    const { code, stderr } = await wisp([...args, ...model]);
    expect([code, stderr]).toEqual([1, expect.stringContaining("Cannot load ./nowhere: there is")]);
  },
  speculativeDraftModelRevision: () =>
    refusedAtStart(
      ...["--speculative-algorithm", "STANDALONE"],
      ...["--speculative-draft-model-path", EMBEDDED_MODEL],
      ...["--speculative-draft-model-revision", "v2"],
    ),
  ...speculationTests(() => second),
  ...rankTests(() => second),
  ...disaggregationTests(() => second, refusedAtStart),
  ...expertTests(() => second, refusedAtStart),
  adapter: () => {
    const name = adapterName() === "lavapipe" ? /Adapter: llvmpipe/ : /Adapter: SwiftShader/i;
    expect(first.output()).toMatch(name);
  },
  baseGpuId: () => refusedAtStart("--base-gpu-id", "99"),
  gpuIdStep: () => refusedAtStart("--tp", "2", "--gpu-id-step", "99"),
  // Measures for minutes, as `wisp tune` does, which is tested beside the command.
  enableTorchCompile: async () => {
    const { code, stderr } = await wisp(["launch_server", "--enable-torch-compile", "extra"]);
    expect([code, stderr]).toEqual([2, expect.stringContaining('"extra"')]);
  },
  randomSeed: async () => {
    const drawn = async (seed: string) => {
      const args = ["generate", "--temperature", "2", "--max-new-tokens", "40", "Name a color"];
      return (await wisp([...args, "--random-seed", seed])).stdout;
    };
    const [one, same, other] = await Promise.all(["7", "7", "8"].map(drawn));
    expect(same).toBe(one);
    expect(other).not.toBe(one);
  },
  toolCallParser: async () => {
    const body = {
      text: "none",
      tools: [{ type: "function", function: { name: "f", parameters: {} } }],
      tool_call_parser: "deepseekv3",
    };
    expect((await first.post("/parse_function_call", body, KEY)).status).toBe(200);
    await echoed(first, "tool_call_parser", "deepseekv3");
  },
  reasoningParser: async () => {
    expect(await reasoningOf(first, KEY)).toMatch(/./);
    expect(await reasoningOf(second, KEY)).toBeNull();
  },
  help: async () => {
    const { code, stdout, stderr } = await wisp(["launch_server", "--help"]);
    expect([code, stderr]).toEqual([0, ""]);
    for (const { flags } of Object.values(LAUNCH_OPTIONS)) expect(stdout).toContain(flags[0]);
  },
  // What it does is seen in sleep.test.ts.
  sleepIdleSeconds: () => echoed(first, "sleep_idle_seconds", 3600),
  // These two are seen when the servers stop.
  drainTimeout: async () => {
    const { code, stdout, stderr } = await first.stop();
    expect(code).toBe(0);
    expect(stdout + stderr).toContain("Stopping: running requests have 2 seconds");
  },
  profileKernels: async () => {
    const { code, stdout, stderr } = await second.stop();
    expect(code).toBe(0);
    expect(stdout + stderr).toMatch(/Kernels: .*mla/s);
  },
};

async function echoed(server: ServingWisp, name: string, value: unknown): Promise<void> {
  expect((await info(server))[name]).toEqual(value);
}

/** @param args The last two are the option that ends the start, and its value. */
async function refusedAtStart(...args: readonly string[]): Promise<void> {
  const adapter = ["--adapter", adapterName()];
  const { code, stderr } = await wisp(["launch_server", "--port", "0", ...adapter, ...args]);
  expect([code, stderr]).toEqual([2, expect.stringContaining(`Cannot use option ${args.at(-2)}`)]);
}

test("every option has its test here", () => {
  expect(Object.keys(EFFECTS).sort()).toEqual(Object.keys(LAUNCH_OPTIONS).sort());
});

describe("options that work", () => {
  test.each(Object.keys(EFFECTS))("%s", (key) => EFFECTS[key]!());
});
