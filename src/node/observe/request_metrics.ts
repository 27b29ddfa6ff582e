/**
 * What is counted of each request on its way: counters and histograms for Prometheus.
 *
 * @module
 */

import { Counter, Histogram, type Registry } from "prom-client";
import type { GrammarCompilation } from "../../constraint.ts";
import { EngineError, WorkerError } from "../../errors.ts";
import type { GenerationChunk, GenerationRequest } from "../../generation.ts";
import { GrammarError } from "../../grammar/grammar_error.ts";
import { constraintsIn } from "../../sampling_params.ts";
import type { Outcome, RequestObserver } from "../../server/observe/observe.ts";
import { RequestCourse } from "../../server/observe/request_course.ts";
import { RecentSum } from "./recent_sum.ts";

/** Seconds. */
const FIRST_TOKEN_BUCKETS = [
  0.1, 0.2, 0.4, 0.6, 0.8, 1, 2, 4, 6, 8, 10, 20, 40, 60, 80, 100, 200, 400,
];
const TOKEN_BUCKETS = [
  0.002, 0.004, 0.006, 0.008, 0.01, 0.015, 0.02, 0.025, 0.03, 0.035, 0.04, 0.06, 0.08, 0.1, 0.2,
  0.4, 0.6, 0.8, 1, 2, 4, 6, 8,
];
const QUEUE_BUCKETS = [
  0.001, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2, 5, 10, 20, 40, 60, 100, 200, 400, 800,
];
const COMPILATION_BUCKETS = [
  0.001, 0.002, 0.005, 0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1, 2, 5, 10, 20, 60,
];
const REQUEST_BUCKETS = [...FIRST_TOKEN_BUCKETS, 800];
/** Tokens: powers of two. */
const LENGTH_BUCKETS = Array.from({ length: 20 }, (_, power) => 2 ** power);

/** Seconds over which throughput, and over which the cached share and the wait, are told. */
export const THROUGHPUT_WINDOW = 10;
export const HIT_RATE_WINDOW = 60;
export const QUEUE_WINDOW = 60;

export type RequestMetrics = ReturnType<typeof requestMetrics>;

/** @param tokensHistogram Whether there are histograms of prompt and completion tokens. */
export function requestMetrics(registry: Registry, tokensHistogram: boolean) {
  const make = new MetricMaker(registry);
  return {
    // In the order of the page.
    ...requestCounters(make),
    ...grammarMetrics(make),
    ...timeHistograms(make),
    ...(tokensHistogram ? lengthHistograms(make) : NO_LENGTHS),
    /** Requests whose constraint is being compiled. */
    compiling: new Set<RequestObserver>(),
    recent: new RecentFigures(),
  };
}

const newSums = () => ({
  generated: new RecentSum(THROUGHPUT_WINDOW),
  prompt: new RecentSum(HIT_RATE_WINDOW),
  cached: new RecentSum(HIT_RATE_WINDOW),
  begun: new RecentSum(QUEUE_WINDOW),
  queueSeconds: new RecentSum(QUEUE_WINDOW),
});

/** What each replica did over the last seconds. */
class RecentFigures {
  readonly #sums: ReturnType<typeof newSums>[] = [];

  /** @param replica Default 0: where there are several, chunks name theirs. */
  of(replica = 0): ReturnType<typeof newSums> {
    this.#sums[replica] ??= newSums();
    return this.#sums[replica];
  }
}

/** Makes metrics of one registry, which shows them in the order in which they are made. */
class MetricMaker {
  readonly #registers: Registry[];

  constructor(registry: Registry) {
    this.#registers = [registry];
  }

  counter<L extends string = never>(name: string, help: string, labelNames: L[] = []): Counter<L> {
    return new Counter({ name: `wisp:${name}`, help, labelNames, registers: this.#registers });
  }

  histogram(name: string, help: string, buckets: number[]): Histogram {
    return new Histogram({ name: `wisp:${name}`, help, buckets, registers: this.#registers });
  }
}

function requestCounters(make: MetricMaker) {
  return {
    promptTokens: make.counter(
      "prompt_tokens_total",
      "Prompt tokens of requests that were computed.",
    ),
    generationTokens: make.counter("generation_tokens_total", "Tokens that were generated."),
    forcedTokens: make.counter(
      "forced_tokens_total",
      "Tokens of constrained answers that took no step.",
    ),
    cachedTokens: make.counter("cached_tokens_total", "Prompt tokens that the cache had."),
    requests: make.counter("num_requests_total", "Requests that have ended, in whatever way."),
    constrained: make.counter(
      "num_so_requests_total",
      "Those of them that asked for structured output.",
    ),
    aborted: make.counter("num_aborted_requests_total", "Requests that ended early."),
    failed: make.counter(
      "num_failed_requests_total",
      "Requests that were refused or went wrong, by the code of the error.",
      ["code"],
    ),
  };
}

function grammarMetrics(make: MetricMaker) {
  return {
    grammars: make.counter(
      "num_grammar_total",
      "Constraints of requests: grammars that they got, and those that were given up.",
    ),
    cachedGrammars: make.counter(
      "num_grammar_cache_hit_total",
      "Those of them that were an earlier request's grammar.",
    ),
    abortedGrammars: make.counter(
      "num_grammar_aborted_total",
      "Those of them that were refused, or whose request ended before the grammar was there.",
    ),
    grammarTime: make.histogram(
      "grammar_compilation_time_seconds",
      "Of compiling a constraint that no earlier request had.",
      COMPILATION_BUCKETS,
    ),
  };
}

function timeHistograms(make: MetricMaker) {
  return {
    queueTime: make.histogram(
      "queue_time_s",
      "From the acceptance of a request to its first row in a step.",
      QUEUE_BUCKETS,
    ),
    timeToFirstToken: make.histogram(
      "time_to_first_token_seconds",
      "From a request to its first token.",
      FIRST_TOKEN_BUCKETS,
    ),
    interTokenLatency: make.histogram(
      "inter_token_latency_seconds",
      "From one token of a request to its next.",
      TOKEN_BUCKETS,
    ),
    requestLatency: make.histogram(
      "e2e_request_latency_seconds",
      "From a request to its end, of requests that came to their end.",
      REQUEST_BUCKETS,
    ),
  };
}

function lengthHistograms(make: MetricMaker) {
  return {
    promptLengths: make.histogram("prompt_tokens_histogram", "Tokens of prompts.", LENGTH_BUCKETS),
    generationLengths: make.histogram(
      "generation_tokens_histogram",
      "Tokens of completions.",
      LENGTH_BUCKETS,
    ),
  };
}

const NO_LENGTHS = { promptLengths: undefined, generationLengths: undefined };

export class MeasuredRequest implements RequestObserver {
  readonly #metrics: RequestMetrics;
  readonly #isConstrained: boolean;
  readonly #course = new RequestCourse();

  constructor({ sampling = {}, constraint }: GenerationRequest, metrics: RequestMetrics) {
    this.#metrics = metrics;
    this.#isConstrained = constraint !== undefined || constraintsIn(sampling).length > 0;
    if (this.#isConstrained) metrics.compiling.add(this);
  }

  chunk(chunk: GenerationChunk): void {
    const metrics = this.#metrics;
    const isFirst = this.#course.timeToFirstToken === undefined;
    const seconds = this.#course.take(chunk);
    // An abort's chunk may come before the grammar.
    if (chunk.finish?.type !== "abort") metrics.compiling.delete(this);
    if (chunk.compilation !== undefined) this.#countGrammar(chunk.compilation);
    if (chunk.queueSeconds !== undefined) this.#countWait(chunk, chunk.queueSeconds);
    const { length } = chunk.tokens;
    if (length === 0) return;
    metrics.generationTokens.inc(length);
    metrics.recent.of(chunk.dataParallelRank).generated.add(length);
    if (isFirst) this.#countPrompt(chunk);
    if (isFirst) metrics.timeToFirstToken.observe(seconds * length);
    for (let i = isFirst ? length : 0; i < length; i++) metrics.interTokenLatency.observe(seconds);
  }

  end(outcome: Outcome): void {
    const metrics = this.#metrics;
    if (metrics.compiling.delete(this) && isFaultOfGrammar(outcome)) {
      metrics.grammars.inc();
      metrics.abortedGrammars.inc();
    }
    metrics.requests.inc();
    if (this.#isConstrained) metrics.constrained.inc();
    metrics.forcedTokens.inc(this.#course.forcedTokens ?? 0);
    if (outcome.type === "aborted") metrics.aborted.inc();
    if (outcome.type === "failed") metrics.failed.inc({ code: codeOf(outcome.error) });
    if (outcome.type !== "finished") return;
    metrics.requestLatency.observe(this.#course.seconds);
    metrics.promptLengths?.observe(this.#course.promptTokens);
    metrics.generationLengths?.observe(this.#course.completionTokens);
  }

  #countGrammar({ isCached, seconds }: GrammarCompilation): void {
    const { grammars, cachedGrammars, grammarTime } = this.#metrics;
    grammars.inc();
    if (isCached) cachedGrammars.inc();
    else grammarTime.observe(seconds);
  }

  #countWait({ dataParallelRank }: GenerationChunk, seconds: number): void {
    const { queueTime, recent } = this.#metrics;
    queueTime.observe(seconds);
    const { begun, queueSeconds } = recent.of(dataParallelRank);
    begun.add(1);
    queueSeconds.add(seconds);
  }

  /** At its first token: from then on it is known what the cache had. */
  #countPrompt({ promptTokens, cachedTokens, dataParallelRank }: GenerationChunk): void {
    const { promptTokens: all, cachedTokens: cached, recent } = this.#metrics;
    all.inc(promptTokens);
    cached.inc(cachedTokens);
    const own = recent.of(dataParallelRank);
    own.prompt.add(promptTokens);
    own.cached.add(cachedTokens);
  }
}

/** Whether a request without a grammar ended for the lack of it, and was not refused before. */
function isFaultOfGrammar(outcome: Outcome): boolean {
  if (outcome.type !== "failed") return outcome.type === "aborted";
  return outcome.error instanceof GrammarError || outcome.error instanceof WorkerError;
}

function codeOf(error: unknown): string {
  return error instanceof EngineError ? error.code : "internal";
}
