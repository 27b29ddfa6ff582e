import { afterEach, beforeEach, describe, expect, test, vi } from "vitest";
import { CapacityError, WorkerError } from "../../../src/errors.ts";
import type {
  EngineStatus,
  GenerationChunk,
  GenerationEngine,
  GenerationRequest,
} from "../../../src/generation.ts";
import { GrammarError } from "../../../src/grammar/grammar_error.ts";
import { PrometheusMetrics } from "../../../src/node/observe/prometheus.ts";
import { RecentSum } from "../../../src/node/observe/recent_sum.ts";
import { StartTimes } from "../../../src/node/serve/start_times.ts";
import { ReplicatedEngine } from "../../../src/parallel/replicas/replicated_engine.ts";
import { createApp } from "../../../src/server/app.ts";
import { observe } from "../../../src/server/observe/observe.ts";
import {
  ScriptedEngine,
  type ScriptedEngineOptions,
} from "../../support/engines/scripted_engine.ts";
import { post } from "../../support/server/http_client.ts";

/** Has a word of its own about each chunk: figures that come with it, by its number from 0. */
class TellingEngine extends ScriptedEngine {
  readonly #figures: readonly Partial<GenerationChunk>[];

  constructor(figures: readonly Partial<GenerationChunk>[]) {
    super();
    this.#figures = figures;
  }

  override async *generate(request: GenerationRequest) {
    let number = 0;
    for await (const chunk of super.generate(request)) {
      yield { ...chunk, ...this.#figures[number] };
      number += 1;
    }
  }
}

/** The series after requests whose chunks have these figures. */
async function afterRequests(...figures: readonly (readonly Partial<GenerationChunk>[])[]) {
  const metrics = new PrometheusMetrics(new ScriptedEngine(), { modelName: "m" });
  for (const ofChunks of figures) {
    const engine = observe(new TellingEngine(ofChunks), [metrics.observer]);
    for await (const _ of engine.generate({ prompt: "abc", sampling: { regex: "a" } }));
  }
  return series(metrics);
}

/** An app whose requests are counted. */
function counted(options: ScriptedEngineOptions = {}, tokensHistogram = false) {
  const scripted: GenerationEngine = new ScriptedEngine(options);
  const metrics = new PrometheusMetrics(scripted, { modelName: "org/name", tokensHistogram });
  const engine = observe(scripted, [metrics.observer]);
  return { engine, app: createApp(engine, { metrics }), metrics };
}

/** Value of each series without labels of ranks, by name and other labels. */
async function series(metrics: PrometheusMetrics): Promise<Record<string, number>> {
  const lines = (await metrics.text()).split("\n").filter((line) => /^\w/.test(line));
  return Object.fromEntries(
    lines.map((line) => {
      const [, name, labels, value] = /^([\w:]+)\{(.*)\} (\S+)$/.exec(line)!;
      const rest = labels!
        .split(",")
        .filter((label) => !/^(model_name|engine_type|\w+_rank)=/.test(label));
      return [`${name}${rest.length > 0 ? `{${rest.join()}}` : ""}`, Number(value)];
    }),
  );
}

describe("PrometheusMetrics", () => {
  test("has the names that dashboards ask for, all with the model's name", async () => {
    const { metrics } = counted();
    const text = await metrics.text();
    const names = (
      "num_running_reqs num_used_tokens token_usage gen_throughput num_queue_reqs " +
      "num_grammar_queue_reqs cache_hit_rate spec_accept_length prompt_tokens_total " +
      "generation_tokens_total cached_tokens_total num_requests_total time_to_first_token_seconds " +
      "inter_token_latency_seconds e2e_request_latency_seconds queue_time_s " +
      "grammar_compilation_time_seconds num_so_requests_total num_aborted_requests_total " +
      "num_grammar_total num_grammar_cache_hit_total num_grammar_aborted_total utilization " +
      "avg_request_queue_latency num_retracted_reqs total_retracted_reqs total_device_recoveries " +
      "total_group_restarts weight_bytes kv_cache_bytes"
    ).split(" ");
    for (const name of names) expect(text).toContain(`# TYPE wisp:${name} `);
    const lines = text.split("\n").filter((line) => /^wisp:/.test(line));
    for (const line of lines) expect(line).toContain('model_name="org/name"');
    expect(text).toMatch(
      /^wisp:num_running_reqs\{engine_type="unified",tp_rank="0",pp_rank="0",dp_rank="0",model_name="org\/name"\} 0$/m,
    );
  });

  test("counts no request that asks to be left out", async () => {
    const { app, metrics, engine } = counted();
    const messages = [{ role: "user", content: "a" }];
    for (const log_metrics of [false, true, null]) {
      expect((await post(app, "/generate", { text: ["a", "b"], log_metrics })).status).toBe(200);
      await post(app, "/v1/chat/completions", { messages, log_metrics });
      await post(app, "/v1/completions", { prompt: "a", log_metrics });
    }
    expect(engine.status().runningRequests).toBe(0);
    expect(await series(metrics)).toMatchObject({
      "wisp:num_requests_total": 8,
      "wisp:prompt_tokens_total": 8,
    });
    const response = await post(app, "/generate", { text: "a", log_metrics: "no" });
    expect(response.status).toBe(400);
  });

  test("counts tokens, requests and times of what was served", async () => {
    const { app, metrics } = counted();
    const sampling_params = { max_new_tokens: 3 };
    await post(app, "/generate", { text: "abcd", sampling_params });
    await post(app, "/generate", { text: ["xy", "z"] });
    expect(await series(metrics)).toMatchObject({
      "wisp:prompt_tokens_total": 7,
      // Three, and with their stop tokens three and two.
      "wisp:generation_tokens_total": 8,
      "wisp:cached_tokens_total": 0,
      "wisp:num_requests_total": 3,
      "wisp:num_so_requests_total": 0,
      "wisp:num_aborted_requests_total": 0,
      "wisp:time_to_first_token_seconds_count": 3,
      "wisp:inter_token_latency_seconds_count": 5,
      "wisp:e2e_request_latency_seconds_count": 3,
      "wisp:gen_throughput": 0.8,
    });
  });

  test("has the documented buckets of the time to the first token", async () => {
    const { metrics } = counted();
    const names = Object.keys(await series(metrics)).flatMap(
      (name) => /^wisp:time_to_first_token_seconds_bucket\{le="(.*)"\}$/.exec(name)?.[1] ?? [],
    );
    expect(names).toEqual(
      "0.1 0.2 0.4 0.6 0.8 1 2 4 6 8 10 20 40 60 80 100 200 400 +Inf".split(" "),
    );
  });

  test("counts those that leave, are refused, or ask for a form", async () => {
    const { app, engine, metrics } = counted({ model: { contextLength: 8 } });
    for await (const _ of engine.generate({ prompt: "abc" })) break;
    await post(app, "/generate", { text: "much too long" });
    for (const form of [{ regex: "a" }, { json_schema: "" }, { structural_tag: "{}" }]) {
      await post(app, "/generate", { text: "a", sampling_params: form });
    }
    const constraint = { kind: "tools", source: "{}" } as const;
    for await (const _ of engine.generate({ prompt: "a", constraint }));
    expect(await series(metrics)).toMatchObject({
      "wisp:num_requests_total": 6,
      "wisp:num_aborted_requests_total": 1,
      'wisp:num_failed_requests_total{code="context_length_exceeded"}': 1,
      "wisp:num_so_requests_total": 3,
      "wisp:e2e_request_latency_seconds_count": 4,
    });
  });

  test("shows a request that waits for its grammar, until its first chunk", async () => {
    let release = () => {};
    const gate = new Promise<void>((resolve) => {
      release = resolve;
    });
    const { engine, metrics } = counted({ script: () => ({ pieces: ["a"], gate: () => gate }) });
    const chunks = engine.generate({ prompt: "a", sampling: { regex: "a" } });
    const iterator = chunks[Symbol.asyncIterator]();
    const first = iterator.next();
    expect((await series(metrics))["wisp:num_grammar_queue_reqs"]).toBe(1);
    release();
    await first;
    expect((await series(metrics))["wisp:num_grammar_queue_reqs"]).toBe(0);
    await iterator.return?.();
  });

  test("tells how long requests waited for their first row", async () => {
    expect(await afterRequests()).toMatchObject({
      "wisp:queue_time_s_count": 0,
      "wisp:avg_request_queue_latency": 0,
    });
    const found = await afterRequests([{}, { queueSeconds: 0.25 }], [{ queueSeconds: 3 }], [{}]);
    expect(found).toMatchObject({
      "wisp:queue_time_s_count": 2,
      "wisp:queue_time_s_sum": 3.25,
      'wisp:queue_time_s_bucket{le="0.1"}': 0,
      'wisp:queue_time_s_bucket{le="0.25"}': 1,
      'wisp:queue_time_s_bucket{le="5"}': 2,
      "wisp:avg_request_queue_latency": 1.625,
    });
  });

  test("counts grammars, those that an earlier request had, and the time of others", async () => {
    const compiled = [{ compilation: { isCached: false, seconds: 1.5 } }];
    const cached = [{ compilation: { isCached: true, seconds: 9 } }];
    expect(await afterRequests(compiled, cached, cached, [{}])).toMatchObject({
      "wisp:num_grammar_total": 3,
      "wisp:num_grammar_cache_hit_total": 2,
      "wisp:num_grammar_aborted_total": 0,
      "wisp:grammar_compilation_time_seconds_count": 1,
      "wisp:grammar_compilation_time_seconds_sum": 1.5,
      "wisp:num_grammar_queue_reqs": 0,
    });
  });

  test.each<[string, unknown, number]>([
    ["is refused", new GrammarError("Cannot read the pattern: it is malformed"), 1],
    ["loses its thread", new WorkerError("Cannot follow a grammar: its thread has ended"), 1],
    [
      "is not what the request fails for",
      new CapacityError("places in the request queue", 1, "it is taken"),
      0,
    ],
  ])("a grammar that %s is counted as such", async (_, error, aborted) => {
    const { engine, metrics } = counted({ script: () => ({ failure: { at: 0, error } }) });
    const form = engine.generate({ prompt: "a", sampling: { regex: "a" } });
    await expect(form[Symbol.asyncIterator]().next()).rejects.toThrow();
    const free = engine.generate({ prompt: "a" });
    await expect(free[Symbol.asyncIterator]().next()).rejects.toThrow();
    expect(await series(metrics)).toMatchObject({
      "wisp:num_grammar_total": aborted,
      "wisp:num_grammar_aborted_total": aborted,
    });
  });

  test("an abort before the grammar is there gives that up, a later one does not", async () => {
    for (const at of [0, 1]) {
      const gate = (chunk: number) =>
        chunk === at ? new Promise<void>(() => {}) : Promise.resolve();
      const { engine, metrics } = counted({ script: () => ({ gate }) });
      const chunks = engine.generate({ prompt: "abc", sampling: { regex: "a" } });
      const iterator = chunks[Symbol.asyncIterator]();
      for (let i = 0; i < at; i++) await iterator.next();
      const last = iterator.next();
      await new Promise((resolve) => setTimeout(resolve));
      engine.abort();
      expect((await last).value?.finish?.type).toBe("abort");
      expect(await series(metrics)).toMatchObject({
        "wisp:num_aborted_requests_total": 1,
        "wisp:num_grammar_total": 1 - at,
        "wisp:num_grammar_aborted_total": 1 - at,
        "wisp:num_grammar_queue_reqs": 0,
      });
    }
  });

  test("shows the share of places in use, and requests that gave their cache back", async () => {
    class BusyEngine extends ScriptedEngine {
      override status(): EngineStatus {
        const busy = { runningRequests: 6, maxRunningRequests: 8, retractions: 5, recoveries: 3 };
        return { ...super.status(), ...busy, retractedRequests: 2 };
      }
    }
    const metrics = new PrometheusMetrics(new BusyEngine(), { modelName: "m" });
    expect(await series(metrics)).toMatchObject({
      "wisp:utilization": 0.75,
      "wisp:num_retracted_reqs": 2,
      "wisp:total_retracted_reqs": 5,
      "wisp:total_device_recoveries": 3,
    });
    expect(await metrics.text()).toMatch(/^wisp:utilization\{engine_type="unified",tp_rank="0",/m);
  });

  test("shows what each rank holds, and how often ranks were started again", async () => {
    class RankedEngine extends ScriptedEngine {
      override status(): EngineStatus {
        const ranks = [70, 60].map((weightBytes, rank) => ({ rank, weightBytes, cacheBytes: 9 }));
        return { ...super.status(), ranks, restarts: 2 };
      }
    }
    const metrics = new PrometheusMetrics(new RankedEngine(), { modelName: "m" });
    const text = await metrics.text();
    for (const [rank, bytes] of [70, 60].entries()) {
      const labels = `engine_type="unified",tp_rank="${rank}",pp_rank="0",dp_rank="0"`;
      expect(text).toContain(`wisp:weight_bytes{${labels},model_name="m"} ${bytes}\n`);
      expect(text).toContain(`wisp:kv_cache_bytes{${labels},model_name="m"} 9\n`);
    }
    expect(text).toMatch(/^wisp:total_group_restarts\{.*tp_rank="0".*\} 2$/m);
  });

  test("shows each replica by its number, and what all have together", async () => {
    const engines = [new ScriptedEngine(), new ScriptedEngine()];
    const plain = engines[0]!.status();
    const ranks = [{ rank: 1, weightBytes: 5, cacheBytes: 6 }];
    engines[1]!.status = () => ({ ...plain, runningRequests: 3, ranks });
    const replicated = new ReplicatedEngine(engines);
    const metrics = new PrometheusMetrics(replicated, {
      modelName: "m",
      startTimes: new StartTimes(),
    });
    const watched = observe(replicated, [metrics.observer]);
    const request = { prompt: "ab", dataParallelRank: 1, sampling: { maxNewTokens: 2 } };
    for await (const _ of watched.generate(request));
    const text = await metrics.text();
    const shown = (name: string, dp: string, tp = 0) => {
      const labels = `engine_type="unified",tp_rank="${tp}",pp_rank="0",dp_rank="${dp}",model_name="m"`;
      return text.split(`\nwisp:${name}{${labels}} `)[1]?.split("\n")[0];
    };
    // By the first of its ranks.
    expect([shown("num_running_reqs", "0"), shown("num_running_reqs", "1", 1)]).toEqual(["0", "3"]);
    expect([shown("gen_throughput", "0"), shown("gen_throughput", "1", 1)]).toEqual(["0", "0.2"]);
    expect([shown("weight_bytes", "0"), shown("weight_bytes", "1", 1)]).toEqual([
      `${2 ** 30}`,
      "5",
    ]);
    for (const name of ["num_grammar_queue_reqs", "engine_startup_time"]) {
      expect([shown(name, "0"), shown(name, "1")]).toEqual([undefined, undefined]);
      expect(shown(name, "all")).toBeDefined();
    }
  });

  test("has histograms of lengths when they are asked for", async () => {
    expect(await counted().metrics.text()).not.toContain("tokens_histogram");
    const { app, metrics } = counted({}, true);
    await post(app, "/generate", { text: "abcd", sampling_params: { max_new_tokens: 3 } });
    expect(await series(metrics)).toMatchObject({
      "wisp:prompt_tokens_histogram_sum": 4,
      "wisp:generation_tokens_histogram_sum": 3,
    });
  });

  test("two servers of one process count apart", async () => {
    const first = counted();
    const second = counted();
    await post(first.app, "/generate", { text: "ab" });
    expect((await series(first.metrics))["wisp:num_requests_total"]).toBe(1);
    expect((await series(second.metrics))["wisp:num_requests_total"]).toBe(0);
  });
});

describe("RecentSum", () => {
  beforeEach(() => {
    vi.useFakeTimers({ toFake: ["performance"] });
  });
  afterEach(() => {
    vi.useRealTimers();
  });

  test("adds what came in its seconds and forgets the rest", () => {
    const recent = new RecentSum(3);
    recent.add(1);
    vi.advanceTimersByTime(1000);
    recent.add(10);
    vi.advanceTimersByTime(1000);
    recent.add(100);
    recent.add(100);
    expect(recent.sum).toBe(211);
    vi.advanceTimersByTime(1000);
    expect(recent.sum).toBe(210);
    vi.advanceTimersByTime(1000);
    expect(recent.sum).toBe(200);
    vi.advanceTimersByTime(60_000);
    expect(recent.sum).toBe(0);
    recent.add(1);
    expect(recent.sum).toBe(1);
  });
});
