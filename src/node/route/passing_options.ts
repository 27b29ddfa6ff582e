/**
 * Options for how a router passes requests on: how many, how large, how often they are tried, and
 * which workers are left alone.
 *
 * @module
 */
import type { OptionTable } from "../options/option_parser.ts";

const REQUESTS = "Requests";
const RETRIES = "Retries";
const BREAKER = "Circuit breaker";
const HEALTH = "Health checks";

/** Seconds that a timer takes. */
const LONGEST = 2_000_000;

const seconds = { kind: "number", value: "SECONDS", min: 0.001, max: LONGEST } as const;
const milliseconds = { kind: "number", value: "MS", min: 0.001, max: 1000 * LONGEST } as const;

const REQUEST_OPTIONS = {
  maxPayloadSize: {
    flags: ["--max-payload-size"],
    kind: "bytes",
    value: "BYTES",
    min: 1,
    default: 536_870_912,
    help: "size of a request's body at most; larger ones are refused with 413",
    group: REQUESTS,
  },
  requestMemory: {
    flags: ["--request-memory"],
    kind: "bytes",
    value: "BYTES",
    min: 1,
    default: 2_147_483_648,
    help: "memory that the bodies of all requests may take together until they are answered, twice their size while they come; a request that finds no room is refused with 503",
    group: REQUESTS,
  },
  requestTimeoutSecs: {
    flags: ["--request-timeout-secs"],
    ...seconds,
    default: 1800,
    help: "how long a request may take with its answer, also a stream",
    group: REQUESTS,
  },
  requestIdHeaders: {
    flags: ["--request-id-headers"],
    kind: "strings",
    value: "NAME...",
    defaultText: "x-request-id x-correlation-id x-trace-id request-id",
    help: "headers that may bring an id of a request; the first that does counts, goes to the worker and stands in the answer, as x-request-id",
    group: REQUESTS,
  },
  maxConcurrentRequests: {
    flags: ["--max-concurrent-requests"],
    kind: "integer",
    min: 1,
    default: 256,
    help: "requests that are sent to workers at once, streams until their ends",
    group: REQUESTS,
  },
  queueSize: {
    flags: ["--queue-size"],
    kind: "integer",
    min: 0,
    default: 100,
    help: "requests that may wait for a place; more are refused with 429",
    group: REQUESTS,
  },
  queueTimeoutSecs: {
    flags: ["--queue-timeout-secs"],
    ...seconds,
    default: 60,
    help: "how long a request may wait for a place; then it is refused with 408",
    group: REQUESTS,
  },
  rateLimitTokensPerSecond: {
    flags: ["--rate-limit-tokens-per-second"],
    kind: "number",
    min: 0.001,
    defaultText: "no limit",
    help: "requests that may begin in a second; further ones wait for a place",
    group: REQUESTS,
  },
} as const satisfies OptionTable;

const RETRY_OPTIONS = {
  retryMaxRetries: {
    flags: ["--retry-max-retries"],
    kind: "integer",
    min: 1,
    default: 5,
    help: "attempts of a request at most, the first one among them; none is made once a byte of an answer was sent",
    group: RETRIES,
  },
  retryInitialBackoffMs: {
    flags: ["--retry-initial-backoff-ms"],
    ...milliseconds,
    default: 50,
    help: "milliseconds before the second attempt",
    group: RETRIES,
  },
  retryMaxBackoffMs: {
    flags: ["--retry-max-backoff-ms"],
    ...milliseconds,
    default: 30_000,
    help: "milliseconds before an attempt at most",
    group: RETRIES,
  },
  retryBackoffMultiplier: {
    flags: ["--retry-backoff-multiplier"],
    kind: "number",
    value: "TIMES",
    min: 1,
    default: 1.5,
    help: "how many times as long the router waits before each further attempt",
    group: RETRIES,
  },
  retryJitterFactor: {
    flags: ["--retry-jitter-factor"],
    kind: "number",
    value: "SHARE",
    min: 0,
    max: 1,
    default: 0.2,
    help: "share of such a wait by which chance makes it longer or shorter",
    group: RETRIES,
  },
  disableRetries: {
    flags: ["--disable-retries"],
    kind: "flag",
    default: false,
    help: "make one attempt",
    group: RETRIES,
  },
} as const satisfies OptionTable;

const BREAKER_OPTIONS = {
  cbFailureThreshold: {
    flags: ["--cb-failure-threshold"],
    kind: "integer",
    min: 1,
    default: 10,
    help: "failures in a row after which a worker is left alone; busy ones do not fail",
    group: BREAKER,
  },
  cbSuccessThreshold: {
    flags: ["--cb-success-threshold"],
    kind: "integer",
    min: 1,
    default: 3,
    help: "successes in a row after which the router trusts the worker again",
    group: BREAKER,
  },
  cbTimeoutDurationSecs: {
    flags: ["--cb-timeout-duration-secs"],
    ...seconds,
    default: 60,
    help: "how long it is left alone before it is tried again",
    group: BREAKER,
  },
  cbWindowDurationSecs: {
    flags: ["--cb-window-duration-secs"],
    ...seconds,
    default: 120,
    help: "time without a failure after which earlier ones no longer count",
    group: BREAKER,
  },
  disableCircuitBreaker: {
    flags: ["--disable-circuit-breaker"],
    kind: "flag",
    default: false,
    help: "leave no worker alone for its failures",
    group: BREAKER,
  },
} as const satisfies OptionTable;

const HEALTH_OPTIONS = {
  healthFailureThreshold: {
    flags: ["--health-failure-threshold"],
    kind: "integer",
    min: 1,
    default: 3,
    help: "failed checks in a row after which a worker is not healthy; times --health-check-timeout-secs also how long it may give no sign of life before its running requests end",
    group: HEALTH,
  },
  healthSuccessThreshold: {
    flags: ["--health-success-threshold"],
    kind: "integer",
    min: 1,
    default: 2,
    help: "successful checks in a row after which it is healthy again",
    group: HEALTH,
  },
  healthCheckTimeoutSecs: {
    flags: ["--health-check-timeout-secs"],
    ...seconds,
    default: 5,
    help: "how long a check may take; times --health-failure-threshold also how long a worker may give no sign of life before its running requests end",
    group: HEALTH,
  },
  healthCheckIntervalSecs: {
    flags: ["--health-check-interval-secs"],
    ...seconds,
    default: 60,
    help: "from one check of the workers to the next",
    group: HEALTH,
  },
  healthCheckEndpoint: {
    flags: ["--health-check-endpoint"],
    kind: "string",
    value: "PATH",
    default: "/health",
    help: "path that is asked, which answers a worker's health by its status",
    group: HEALTH,
  },
} as const satisfies OptionTable;

export const PASSING_OPTIONS = {
  ...REQUEST_OPTIONS,
  ...RETRY_OPTIONS,
  ...BREAKER_OPTIONS,
  ...HEALTH_OPTIONS,
} as const satisfies OptionTable;
