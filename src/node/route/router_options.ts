/**
 * Options of `wisp launch_router`.
 *
 * @module
 */
import { POLICIES } from "../../router/policy/policy.ts";
import { ACCESS_OPTIONS } from "../options/access_options.ts";
import type { OptionTable, OptionValues } from "../options/option_parser.ts";
import { SERVER_OPTIONS } from "../options/server_options.ts";
import { DISCOVERY_OPTIONS } from "./discovery_options.ts";
import { PAIR_OPTIONS } from "./pair_options.ts";
import { PASSING_OPTIONS } from "./passing_options.ts";
import { RESERVED_ROUTER_OPTIONS } from "./reserved_router_options.ts";

const ROUTER = "Router";
const WORKERS = "Workers";
const POLICY = "Policy";
const METRICS = "Logs and metrics";
const OTHER = "Other";

export const ROUTER_OPTIONS = {
  config: SERVER_OPTIONS.config,
  host: { ...SERVER_OPTIONS.host, group: ROUTER },
  port: { ...SERVER_OPTIONS.port, group: ROUTER },
  drainTimeout: {
    ...SERVER_OPTIONS.drainTimeout,
    help:
      "how long a router that is told to stop waits for running requests; then they are aborted and " +
      "the exit code is 1",
    group: ROUTER,
  },
  workerUrls: {
    flags: ["--worker-urls"],
    kind: "strings",
    value: "URL...",
    defaultText: "none: /add_worker adds them",
    help: "servers that requests are sent to, such as http://10.0.0.1:30000",
    group: WORKERS,
  },
  dpAware: {
    flags: ["--dp-aware"],
    kind: "flag",
    default: false,
    help:
      "ask each worker how many replicas it has (--dp-size), and choose among the replicas of all " +
      "workers in place of workers",
    group: WORKERS,
  },
  ...PAIR_OPTIONS,
  ...DISCOVERY_OPTIONS,
  workerStartupTimeoutSecs: {
    flags: ["--worker-startup-timeout-secs"],
    kind: "number",
    value: "SECONDS",
    min: 0.001,
    max: 2_000_000,
    default: 600,
    help: "how long a new worker may take until it is healthy; those of --worker-urls must all be, else the router ends with 1",
    group: WORKERS,
  },
  workerStartupCheckInterval: {
    flags: ["--worker-startup-check-interval"],
    kind: "number",
    value: "SECONDS",
    min: 0.001,
    max: 2_000_000,
    default: 30,
    help: "from one look at a worker that starts to the next, and from one question for the load of workers to the next",
    group: WORKERS,
  },
  policy: {
    flags: ["--policy"],
    kind: "string",
    choices: POLICIES,
    default: "cache_aware",
    help: "how a worker is chosen: the one that was sent what begins like the prompt, of two random ones the one with less to do, a random one, or one after the other",
    group: POLICY,
  },
  cacheThreshold: {
    flags: ["--cache-threshold"],
    kind: "number",
    value: "SHARE",
    min: 0,
    max: 1,
    default: 0.3,
    help: "cache_aware: share of a prompt that a worker must have been sent before, to be chosen for that",
    group: POLICY,
  },
  balanceAbsThreshold: {
    flags: ["--balance-abs-threshold"],
    kind: "integer",
    min: 0,
    default: 64,
    help: "cache_aware: requests that one worker has more than another, beyond which the one with the least is chosen, if it also has",
    group: POLICY,
  },
  balanceRelThreshold: {
    flags: ["--balance-rel-threshold"],
    kind: "number",
    value: "TIMES",
    min: 1,
    default: 1.5,
    help: "so many times as many",
    group: POLICY,
  },
  maxTreeSize: {
    flags: ["--max-tree-size"],
    kind: "integer",
    min: 1,
    default: 2 ** 26,
    help: "cache_aware: characters that are remembered of the prompts of each worker; a beginning of its own counts 128 more",
    group: POLICY,
  },
  evictionIntervalSecs: {
    flags: ["--eviction-interval-secs", "--eviction-interval"],
    kind: "number",
    value: "SECONDS",
    min: 0.001,
    help: "taken and never used: what is too much is forgotten at once",
    group: POLICY,
  },
  ...PASSING_OPTIONS,
  apiKey: {
    ...ACCESS_OPTIONS.apiKey,
    help: "ask clients for the header Authorization: Bearer KEY on every path but /liveness, /readiness, /health and /health_generate, and show it to workers",
  },
  adminApiKey: {
    ...ACCESS_OPTIONS.adminApiKey,
    help: "ask for this key at /add_worker, /remove_worker, /flush_cache and /abort_request; it opens everything else too",
  },
  allowedOrigins: {
    ...ACCESS_OPTIONS.allowedOrigins,
    flags: ["--allowed-origins", "--cors-allowed-origins"],
    defaultText: "the router's own",
    help: "pages that may use the router from a browser, such as https://example.org; * is every page. The router refuses pages of other origins; programs that are no browsers have none",
  },
  allowedHosts: ACCESS_OPTIONS.allowedHosts,
  sendTimeout: {
    ...ACCESS_OPTIONS.sendTimeout,
    help: "how long a client may take nothing of an answer that is there; then the router closes its connection, and its request ends at the worker",
  },
  prometheusHost: {
    flags: ["--prometheus-host"],
    kind: "string",
    value: "ADDRESS",
    default: "127.0.0.1",
    help: "address at which /metrics is served for Prometheus",
    group: METRICS,
  },
  prometheusPort: {
    flags: ["--prometheus-port"],
    kind: "integer",
    min: 0,
    max: 65535,
    default: 29000,
    help: "port of /metrics; 0 takes any free one",
    group: METRICS,
  },
  logLevel: {
    ...SERVER_OPTIONS.logLevel,
    help: "what is less important is not written; debug has a line for each request",
  },
  logFormat: {
    ...SERVER_OPTIONS.logFormat,
    choices: ["text", "json"],
    help: "text; json is one object a line",
  },
  ...RESERVED_ROUTER_OPTIONS,
  help: {
    flags: ["--help"],
    kind: "flag",
    default: false,
    help: "print this help",
    group: OTHER,
  },
} as const satisfies OptionTable;

export type RouterLaunchOptions = OptionValues<typeof ROUTER_OPTIONS>;
