/**
 * The figures of a server for Prometheus, under the names that dashboards for such servers know,
 * with the prefix `wisp:`.
 *
 * Counters and histograms follow the requests; gauges ask the engine when a client reads /metrics.
 *
 * @module
 */

import { Gauge, Registry } from "prom-client";
import type { EngineStatus, GenerationEngine } from "../../generation.ts";
import type { RankStatus } from "../../ranks_status.ts";
import type { MetricsPage } from "../../server/observe/metrics_page.ts";
import type { EngineObserver } from "../../server/observe/observe.ts";
import type { CountedRole } from "../../server/server_context.ts";
import { acceptLength } from "../../speculation_figures.ts";
import type { StartTimes } from "../serve/start_times.ts";
import {
  HIT_RATE_WINDOW,
  MeasuredRequest,
  QUEUE_WINDOW,
  type RequestMetrics,
  requestMetrics,
  THROUGHPUT_WINDOW,
} from "./request_metrics.ts";
import { addRoleMetrics } from "./role_metrics.ts";

export interface PrometheusOptions {
  /** Of the label `model_name`. */
  readonly modelName: string;
  /** Whether there are histograms of prompt and completion tokens. */
  readonly tokensHistogram?: boolean;
  /** Of the engine's start, if the server has measured it. */
  readonly startTimes?: StartTimes;
  /** Of a server that shares requests with another one. */
  readonly role?: CountedRole | undefined;
}

const RANK_LABELS = { engine_type: "unified", tp_rank: "0", pp_rank: "0", dp_rank: "0" };
/** Of what all replicas have together. */
const ALL = "all";

type RankLabels = Readonly<Record<keyof typeof RANK_LABELS, string>>;

export class PrometheusMetrics implements MetricsPage {
  readonly #registry = new Registry();
  readonly #requests: RequestMetrics;

  constructor(engine: GenerationEngine, options: PrometheusOptions) {
    this.#registry.setDefaultLabels({ model_name: options.modelName });
    this.#requests = requestMetrics(this.#registry, options.tokensHistogram ?? false);
    const { role } = options;
    const labels = { ...RANK_LABELS, ...(role && { engine_type: role.name }) };
    addGauges({ registry: this.#registry, labels }, engine, this.#requests, options.startTimes);
    if (role !== undefined) addRoleMetrics(this.#registry, role, labels);
  }

  get contentType(): string {
    return this.#registry.contentType;
  }

  text(): Promise<string> {
    return this.#registry.metrics();
  }

  readonly observer: EngineObserver = (request) =>
    request.isMeasured === false ? undefined : new MeasuredRequest(request, this.#requests);
}

interface Series {
  readonly registry: Registry;
  readonly labels: RankLabels;
}

/** @param value Of a replica, by its number, as its status is now. */
type AddGauge = (
  name: string,
  help: string,
  value: (status: EngineStatus, replica: number) => number,
) => void;

/** Adds a gauge, whose values are told when they are read. */
function addGauge(
  registry: Registry,
  { name, help }: { readonly name: string; readonly help: string },
  tell: (set: (labels: RankLabels, value: number) => void) => void,
): void {
  new Gauge({
    name: `wisp:${name}`,
    help,
    labelNames: Object.keys(RANK_LABELS),
    registers: [registry],
    collect() {
      tell((labels, value) => this.set(labels, value));
    },
  });
}

/** In the order of the page. */
function addGauges(
  { registry, labels }: Series,
  engine: GenerationEngine,
  requests: RequestMetrics,
  times: StartTimes | undefined,
): void {
  const gauge: AddGauge = (name, help, value) =>
    addGauge(registry, { name, help }, (set) => {
      for (const [i, status] of replicasOf(engine).entries()) {
        // The first rank of an attention group, which schedules for it.
        const tp_rank = `${status.ranks?.[0]?.rank ?? 0}`;
        set({ ...labels, tp_rank, dp_rank: `${i}` }, value(status, i));
      }
    });
  const dp_rank = replicasOf(engine).length > 1 ? ALL : labels.dp_rank;
  const whole = (name: string, help: string, value: () => number) =>
    addGauge(registry, { name, help }, (set) => set({ ...labels, dp_rank }, value()));
  addLoad(gauge, whole, requests);
  addRecent(gauge, requests);
  addCourse(gauge);
  addMemory({ registry, labels }, engine);
  if (times === undefined) return;
  whole("engine_startup_time", "Seconds of the engine's start.", () => times.seconds);
  whole("engine_load_weights_time", "Seconds of loading weights.", () => times.weightSeconds);
}

/** The engine alone, where it has none. */
function replicasOf(engine: GenerationEngine): readonly EngineStatus[] {
  const status = engine.status();
  return status.replicas ?? [status];
}

/** What the engine has to do now, and how much of the cache that takes. */
function addLoad(
  gauge: AddGauge,
  whole: (name: string, help: string, value: () => number) => void,
  { compiling }: RequestMetrics,
): void {
  gauge("num_running_reqs", "Requests that run.", (status) => status.runningRequests);
  gauge("num_queue_reqs", "Requests that wait for a place.", (status) => status.queuedRequests);
  whole("num_grammar_queue_reqs", "Requests that wait for their grammar.", () => compiling.size);
  gauge("num_used_tokens", "Slots of the KV cache in use.", (status) => status.usedTokens);
  gauge("max_total_num_tokens", "Slots of the KV cache.", (status) => status.totalTokens);
  gauge(
    "token_usage",
    "Share of the KV cache's slots in use.",
    ({ usedTokens, totalTokens }) => usedTokens / totalTokens,
  );
}

/** What each rank holds on its device. */
function addMemory({ registry, labels }: Series, engine: GenerationEngine): void {
  const add = (name: string, help: string, pick: (of: Omit<RankStatus, "rank">) => number) =>
    addGauge(registry, { name, help }, (set) => {
      for (const [i, status] of replicasOf(engine).entries()) {
        for (const one of status.ranks ?? [{ ...status, rank: 0 }]) {
          set({ ...labels, tp_rank: `${one.rank}`, dp_rank: `${i}` }, pick(one));
        }
      }
    });
  add("weight_bytes", "Bytes of weights on the device.", ({ weightBytes }) => weightBytes);
  add("kv_cache_bytes", "Bytes of the KV cache on the device.", ({ cacheBytes }) => cacheBytes);
}

/** What was done over the last seconds. */
function addRecent(gauge: AddGauge, { recent }: RequestMetrics): void {
  gauge(
    "gen_throughput",
    `Tokens generated a second, over the last ${THROUGHPUT_WINDOW} seconds.`,
    (_, replica) => recent.of(replica).generated.sum / THROUGHPUT_WINDOW,
  );
  gauge(
    "cache_hit_rate",
    `Share of prompt tokens that the cache had, over the last ${HIT_RATE_WINDOW} seconds.`,
    (_, replica) => {
      const { cached, prompt } = recent.of(replica);
      return cached.sum / Math.max(prompt.sum, 1);
    },
  );
  gauge(
    "avg_request_queue_latency",
    `Seconds that requests waited for their first row, on average over the last ${QUEUE_WINDOW} seconds.`,
    (_, replica) => {
      const { queueSeconds, begun } = recent.of(replica);
      return queueSeconds.sum / Math.max(begun.sum, 1);
    },
  );
}

/** How requests fare beside one another, and what went wrong on the way. */
function addCourse(gauge: AddGauge): void {
  gauge(
    "utilization",
    "Share of the places in use that requests run in.",
    ({ runningRequests, maxRunningRequests }) => runningRequests / maxRunningRequests,
  );
  gauge(
    "num_retracted_reqs",
    "Requests that had to give their cache back and wait to be computed again.",
    (status) => status.retractedRequests,
  );
  gauge(
    "total_retracted_reqs",
    "How often requests had to give their cache back.",
    (status) => status.retractions,
  );
  gauge(
    "total_device_recoveries",
    "How often a lost device was replaced.",
    (status) => status.recoveries,
  );
  gauge(
    "total_group_restarts",
    "How often ranks that are processes were started again.",
    (status) => status.restarts ?? 0,
  );
  gauge(
    "engine_asleep",
    "1 while the model has left the device for lack of requests, or is coming back; else 0.",
    ({ sleep }) => (sleep === undefined ? 0 : 1),
  );
  gauge(
    "spec_accept_length",
    "Tokens that a step of speculative decoding adds to a request, on average; 0 without it.",
    ({ speculation }) => (speculation === undefined ? 0 : acceptLength(speculation)),
  );
}
