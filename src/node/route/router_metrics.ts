/**
 * The figures of a router for Prometheus.
 *
 * @module
 */
import { Counter, Gauge, Histogram, Registry } from "prom-client";
import type { Router } from "../../router/app.ts";
import type { RouterObserver } from "../../router/observer.ts";
import { POLICIES, type Policy } from "../../router/policy/policy.ts";
import { BREAKER_STATES } from "../../router/worker/breaker.ts";
import type { Worker } from "../../router/worker/worker.ts";

/** Seconds. */
const DURATION_BUCKETS = [
  0.001, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 15, 30, 45, 60, 90, 120, 180, 240,
];

export class RouterMetrics {
  readonly #registry = new Registry();
  readonly #registers = [this.#registry];
  readonly #requests = this.#counter("requests_total", "Requests that have ended.", ["route"]);
  readonly #durations = this.#histogram(
    "request_duration_seconds",
    "From a request to the end of its answer.",
    ["route"],
  );
  readonly #generations = this.#histogram(
    "generate_duration_seconds",
    "The same of requests that generate.",
  );
  readonly #errors = this.#counter("request_errors_total", "Requests that failed, and how.", [
    "route",
    "error_type",
  ]);
  readonly #retries = this.#counter("retries_total", "Attempts after the first.", ["route"]);
  readonly #backoff = this.#histogram(
    "retry_backoff_duration_seconds",
    "Waits before attempts, by the number of the attempt that failed.",
    ["attempt"],
  );
  readonly #exhausted = this.#counter(
    "retries_exhausted_total",
    "Requests that failed at each attempt.",
    ["route"],
  );
  readonly #transitions = this.#counter(
    "cb_state_transitions_total",
    "Changes of circuit breakers.",
    ["worker", "from", "to"],
  );
  readonly #outcomes = this.#counter(
    "cb_outcomes_total",
    "How requests to workers went: success, failure, or busy, which no breaker counts.",
    ["worker", "outcome"],
  );
  readonly #decisions = this.#counter("policy_decisions_total", "Choices of workers.", [
    "policy",
    "worker",
  ]);
  readonly #hits = this.#counter(
    "cache_hits_total",
    "Choices by a prompt's beginning, which the worker had been sent.",
  );
  readonly #misses = this.#counter("cache_misses_total", "Choices where no worker had been.");
  readonly #balancing = this.#counter(
    "load_balancing_events_total",
    "Choices by the loads of workers, as they were too different.",
  );
  readonly #brokenStreams = this.#counter(
    "stream_errors_total",
    "Answers that broke off after their first bytes.",
    ["worker"],
  );
  readonly #discovery = {
    update: this.#counter("discovery_updates_total", "What a cluster told of its pods."),
    added: this.#counter("discovery_workers_added", "Pods that became workers."),
    removed: this.#counter("discovery_workers_removed", "Workers whose pods left."),
  };

  get contentType(): string {
    return this.#registry.contentType;
  }

  text(): Promise<string> {
    return this.#registry.metrics();
  }

  /** @param event What is done with lines of the log. */
  observer(event: RouterObserver["event"]): RouterObserver {
    return {
      event,
      request: (route, seconds, error) => {
        this.#requests.inc({ route });
        this.#durations.observe({ route }, seconds);
        if (GENERATING.has(route)) this.#generations.observe(seconds);
        if (error !== undefined) this.#errors.inc({ route, error_type: error });
      },
      retry: (route, attempt, seconds) => {
        this.#retries.inc({ route });
        this.#backoff.observe({ attempt: String(attempt) }, seconds);
      },
      exhausted: (route) => this.#exhausted.inc({ route }),
      decision: (policy, worker) => this.#decisions.inc({ policy, worker }),
      prefix: (isHit) => {
        if (isHit === undefined) this.#balancing.inc();
        else if (isHit) this.#hits.inc();
        else this.#misses.inc();
      },
      outcome: (worker, outcome) => this.#outcomes.inc({ worker, outcome }),
      breaker: (worker, from, to) => this.#transitions.inc({ worker, from, to }),
      brokenStream: (worker) => this.#brokenStreams.inc({ worker }),
      discovery: (what) => this.#discovery[what].inc(),
      removed: (worker) => this.#forget(worker),
    };
  }

  /** Adds what is looked at when a client reads the page. */
  watch({ workers, admission }: Router, policy: Policy): void {
    const all = () => workers.all;
    const extreme = (choose: (a: number, b: number) => number) => () =>
      all().length === 0
        ? 0
        : all()
            .map(({ load }) => load)
            .reduce((a, b) => choose(a, b));
    this.#gauge("active_workers", "Workers that may be chosen.", () => workers.available.length);
    this.#gauge("admitted_requests", "Requests that are sent.", () => admission.running);
    this.#gauge("queued_requests", "Requests that wait for a place.", () => admission.waiting);
    this.#gauge("max_load", "Most requests at a worker.", extreme(Math.max));
    this.#gauge("min_load", "Fewest requests at a worker.", extreme(Math.min));
    const ofWorkers: readonly [string, string, (worker: Worker) => number][] = [
      ["worker_health", "1 where it is healthy.", ({ health }) => Number(health === "healthy")],
      ["worker_load", "Requests there, those of others too.", ({ load }) => load],
      ["running_requests", "Requests there that this router sent.", ({ inFlight }) => inFlight],
      ["processed_requests_total", "Requests that it has ended.", ({ processed }) => processed],
      ["tree_size", "UTF-16 units kept of its prompts.", (worker) => policy.sizeOf(worker)],
      [
        "cb_state",
        "Its circuit breaker: 0 closed, 1 open, 2 half-open.",
        ({ breaker }) => BREAKER_STATES.indexOf(breaker.state),
      ],
    ];
    for (const [name, help, value] of ofWorkers) this.#ofWorkers(name, help, all, value);
  }

  #forget(worker: string): void {
    for (const outcome of ["success", "failure", "busy"]) {
      this.#outcomes.remove({ worker, outcome });
    }
    this.#brokenStreams.remove({ worker });
    for (const policy of POLICIES) this.#decisions.remove({ policy, worker });
    for (const from of BREAKER_STATES) {
      for (const to of BREAKER_STATES) this.#transitions.remove({ worker, from, to });
    }
  }

  #counter<L extends string = never>(name: string, help: string, labelNames: L[] = []): Counter<L> {
    const registers = this.#registers;
    return new Counter({ name: `wisp_router_${name}`, help, labelNames, registers });
  }

  #histogram<L extends string = never>(
    name: string,
    help: string,
    labelNames: L[] = [],
  ): Histogram<L> {
    const registers = this.#registers;
    const buckets = DURATION_BUCKETS;
    return new Histogram({ name: `wisp_router_${name}`, help, labelNames, buckets, registers });
  }

  #gauge(name: string, help: string, value: () => number): void {
    new Gauge({
      name: `wisp_router_${name}`,
      help,
      registers: this.#registers,
      collect() {
        this.set(value());
      },
    });
  }

  #ofWorkers(
    name: string,
    help: string,
    all: () => readonly Worker[],
    value: (worker: Worker) => number,
  ): void {
    new Gauge({
      name: `wisp_router_${name}`,
      help,
      labelNames: ["worker"],
      registers: this.#registers,
      collect() {
        this.reset();
        for (const worker of all()) this.set({ worker: worker.url }, value(worker));
      },
    });
  }
}

const GENERATING: ReadonlySet<string> = new Set([
  "/generate",
  "/v1/chat/completions",
  "/v1/completions",
]);
