/**
 * The figures of a server for Prometheus, under the names that dashboards for such servers know,
 * with the prefix `wisp:`.
 *
 * Counters and histograms follow the requests; gauges ask the engine when somebody looks.
 *
 * @module
 */
import { Counter, Gauge, Histogram, Registry } from "prom-client";
import { EngineError } from "../errors.ts";
import type { GenerationChunk, GenerationEngine, GenerationRequest } from "../generation.ts";
import type { MetricsPage } from "../server/metrics.ts";
import type { EngineObserver, Outcome, RequestObserver } from "../server/observe.ts";
import { RequestCourse } from "../server/request_course.ts";
import { RecentSum } from "./recent_sum.ts";
import type { StartTimes } from "./start_times.ts";

export interface PrometheusOptions {
  /** Of the label `model_name`. */
  readonly modelName: string;
  /** Whether there are histograms of prompt and completion tokens. */
  readonly tokensHistogram?: boolean;
  /** Of the engine's start, if somebody has looked at a clock. */
  readonly startTimes?: StartTimes;
}

/** Seconds. */
const FIRST_TOKEN_BUCKETS = [
  0.1, 0.2, 0.4, 0.6, 0.8, 1, 2, 4, 6, 8, 10, 20, 40, 60, 80, 100, 200, 400,
];
const TOKEN_BUCKETS = [
  0.002, 0.004, 0.006, 0.008, 0.01, 0.015, 0.02, 0.025, 0.03, 0.035, 0.04, 0.06, 0.08, 0.1, 0.2,
  0.4, 0.6, 0.8, 1, 2, 4, 6, 8,
];
const REQUEST_BUCKETS = [...FIRST_TOKEN_BUCKETS, 800];
/** Tokens: powers of two. */
const LENGTH_BUCKETS = Array.from({ length: 20 }, (_, power) => 2 ** power);

/** Seconds over which throughput, and over which the share of cached tokens, is told. */
const THROUGHPUT_WINDOW = 10;
const HIT_RATE_WINDOW = 60;

/** One engine on one device. */
const RANK_LABELS = { engine_type: "unified", tp_rank: "0", pp_rank: "0", dp_rank: "0" };

export class PrometheusMetrics implements MetricsPage {
  readonly #registry = new Registry();
  readonly #requests: RequestMetrics;

  constructor(engine: GenerationEngine, options: PrometheusOptions) {
    this.#registry.setDefaultLabels({ model_name: options.modelName });
    this.#requests = requestMetrics(this.#registry, options);
    addGauges(this.#registry, engine, this.#requests, options.startTimes);
  }

  get contentType(): string {
    return this.#registry.contentType;
  }

  text(): Promise<string> {
    return this.#registry.metrics();
  }

  readonly observer: EngineObserver = (request) => new MeasuredRequest(request, this.#requests);
}

type RequestMetrics = ReturnType<typeof requestMetrics>;

function requestMetrics(registry: Registry, { tokensHistogram = false }: PrometheusOptions) {
  const registers = [registry];
  const counter = (name: string, help: string) =>
    new Counter({ name: `wisp:${name}`, help, registers });
  const histogram = (name: string, help: string, buckets: number[]) =>
    new Histogram({ name: `wisp:${name}`, help, buckets, registers });
  return {
    promptTokens: counter("prompt_tokens_total", "Prompt tokens of requests that were computed."),
    generationTokens: counter("generation_tokens_total", "Tokens that were generated."),
    cachedTokens: counter("cached_tokens_total", "Prompt tokens that the cache had."),
    requests: counter("num_requests_total", "Requests that have ended, in whatever way."),
    constrained: counter(
      "num_so_requests_total",
      "Those of them that asked for structured output.",
    ),
    aborted: counter("num_aborted_requests_total", "Requests that ended early."),
    failed: new Counter({
      name: "wisp:num_failed_requests_total",
      help: "Requests that were refused or went wrong, by the code of the error.",
      labelNames: ["code"],
      registers,
    }),
    timeToFirstToken: histogram(
      "time_to_first_token_seconds",
      "From a request to its first token.",
      FIRST_TOKEN_BUCKETS,
    ),
    interTokenLatency: histogram(
      "inter_token_latency_seconds",
      "From one token of a request to its next.",
      TOKEN_BUCKETS,
    ),
    requestLatency: histogram(
      "e2e_request_latency_seconds",
      "From a request to its end, of requests that came to their end.",
      REQUEST_BUCKETS,
    ),
    promptLengths: tokensHistogram
      ? histogram("prompt_tokens_histogram", "Tokens of prompts.", LENGTH_BUCKETS)
      : undefined,
    generationLengths: tokensHistogram
      ? histogram("generation_tokens_histogram", "Tokens of completions.", LENGTH_BUCKETS)
      : undefined,
    /** Requests whose constraint is being compiled. */
    compiling: new Set<RequestObserver>(),
    recent: {
      generated: new RecentSum(THROUGHPUT_WINDOW),
      prompt: new RecentSum(HIT_RATE_WINDOW),
      cached: new RecentSum(HIT_RATE_WINDOW),
    },
  };
}

function addGauges(
  registry: Registry,
  engine: GenerationEngine,
  requests: RequestMetrics,
  times: StartTimes | undefined,
): void {
  const { recent, compiling } = requests;
  const gauge = (name: string, help: string, value: () => number) =>
    new Gauge({
      name: `wisp:${name}`,
      help,
      labelNames: Object.keys(RANK_LABELS),
      registers: [registry],
      collect() {
        this.set(RANK_LABELS, value());
      },
    });
  const status = () => engine.status();
  gauge("num_running_reqs", "Requests that run.", () => status().runningRequests);
  gauge("num_queue_reqs", "Requests that wait for a place.", () => status().queuedRequests);
  gauge("num_grammar_queue_reqs", "Requests that wait for their grammar.", () => compiling.size);
  gauge("num_used_tokens", "Slots of the KV cache in use.", () => status().usedTokens);
  gauge("max_total_num_tokens", "Slots of the KV cache.", () => status().totalTokens);
  gauge("token_usage", "Share of the KV cache's slots in use.", () => {
    const { usedTokens, totalTokens } = status();
    return usedTokens / totalTokens;
  });
  gauge(
    "gen_throughput",
    `Tokens generated a second, over the last ${THROUGHPUT_WINDOW} seconds.`,
    () => recent.generated.sum / THROUGHPUT_WINDOW,
  );
  gauge(
    "cache_hit_rate",
    `Share of prompt tokens that the cache had, over the last ${HIT_RATE_WINDOW} seconds.`,
    () => recent.cached.sum / Math.max(recent.prompt.sum, 1),
  );
  gauge(
    "total_retracted_reqs",
    "How often requests had to give their cache back.",
    () => status().retractions,
  );
  gauge(
    "spec_accept_length",
    "Tokens that a step of speculative decoding adds; 0 without it.",
    () => 0,
  );
  if (times === undefined) return;
  gauge("engine_startup_time", "Seconds of the engine's start.", () => times.seconds);
  gauge("engine_load_weights_time", "Seconds of loading weights.", () => times.weightSeconds);
}

class MeasuredRequest implements RequestObserver {
  readonly #metrics: RequestMetrics;
  readonly #isConstrained: boolean;
  readonly #course = new RequestCourse();

  constructor({ sampling = {}, constraint }: GenerationRequest, metrics: RequestMetrics) {
    this.#metrics = metrics;
    const { jsonSchema, regex, ebnf, structuralTag } = sampling;
    // An empty text is no constraint.
    const forms = [jsonSchema, regex, ebnf, structuralTag, constraint];
    this.#isConstrained = forms.some((form) => form !== undefined && form !== "");
    if (this.#isConstrained) metrics.compiling.add(this);
  }

  chunk(chunk: GenerationChunk): void {
    const metrics = this.#metrics;
    const isFirst = this.#course.timeToFirstToken === undefined;
    const seconds = this.#course.take(chunk);
    metrics.compiling.delete(this);
    const { length } = chunk.tokens;
    if (length === 0) return;
    metrics.generationTokens.inc(length);
    metrics.recent.generated.add(length);
    if (isFirst) this.#countPrompt(chunk);
    if (isFirst) metrics.timeToFirstToken.observe(seconds * length);
    for (let i = isFirst ? length : 0; i < length; i++) metrics.interTokenLatency.observe(seconds);
  }

  end(outcome: Outcome): void {
    const metrics = this.#metrics;
    metrics.compiling.delete(this);
    metrics.requests.inc();
    if (this.#isConstrained) metrics.constrained.inc();
    if (outcome.type === "aborted") metrics.aborted.inc();
    if (outcome.type === "failed") metrics.failed.inc({ code: codeOf(outcome.error) });
    if (outcome.type !== "finished") return;
    metrics.requestLatency.observe(this.#course.seconds);
    metrics.promptLengths?.observe(this.#course.promptTokens);
    metrics.generationLengths?.observe(this.#course.completionTokens);
  }

  /** At its first token: from then on it is known what the cache had. */
  #countPrompt({ promptTokens, cachedTokens }: GenerationChunk): void {
    const { promptTokens: all, cachedTokens: cached, recent } = this.#metrics;
    all.inc(promptTokens);
    cached.inc(cachedTokens);
    recent.prompt.add(promptTokens);
    recent.cached.add(cachedTokens);
  }
}

function codeOf(error: unknown): string {
  return error instanceof EngineError ? error.code : "internal";
}
