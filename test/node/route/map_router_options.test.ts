import { expect, test } from "vitest";
import { parseOptions } from "../../../src/node/options/option_parser.ts";
import { policyOf, routerOptions } from "../../../src/node/route/map_router_options.ts";
import { ROUTER_OPTIONS } from "../../../src/node/route/router_options.ts";
import { CircuitBreaker } from "../../../src/router/worker/breaker.ts";
import { Worker } from "../../../src/router/worker/worker.ts";

const parse = (...args: string[]) => parseOptions(ROUTER_OPTIONS, args).values;

const DEFAULTS = {
  apiKey: undefined,
  adminApiKey: undefined,
  allowedOrigins: undefined,
  allowedHosts: undefined,
  listensOn: "127.0.0.1",
  maxBodyBytes: 536_870_912,
  requestMemory: 2_147_483_648,
  requestTimeout: 1_800_000,
  knowsReplicas: false,
  requestIdHeaders: ["x-request-id", "x-correlation-id", "x-trace-id", "request-id"],
  admission: {
    maxConcurrentRequests: 256,
    queueSize: 100,
    queueTimeout: 60_000,
    requestsPerSecond: undefined,
  },
  retries: { attempts: 5, initialBackoff: 50, maxBackoff: 30_000, multiplier: 1.5, jitter: 0.2 },
  breaker: { failureThreshold: 10, successThreshold: 3, openTime: 60_000, window: 120_000 },
  health: {
    endpoint: "/health",
    interval: 60_000,
    timeout: 5000,
    failureThreshold: 3,
    successThreshold: 2,
    startupTimeout: 600_000,
    startupInterval: 30_000,
  },
};

test("without options the router is what others of this kind are", () => {
  expect(routerOptions(parse())).toEqual(DEFAULTS);
  const { port, policy, prometheusPort, prometheusHost, drainTimeout } = parse();
  expect([port, policy, prometheusPort, prometheusHost, drainTimeout]).toEqual([
    30000,
    "cache_aware",
    29000,
    "127.0.0.1",
    300,
  ]);
  const { cacheThreshold, balanceAbsThreshold, balanceRelThreshold, maxTreeSize } = parse();
  expect([cacheThreshold, balanceAbsThreshold, balanceRelThreshold, maxTreeSize]).toEqual([
    0.3,
    64,
    1.5,
    2 ** 26,
  ]);
});

test.each([
  [["--api-key", "k"], { apiKey: "k" }],
  [["--admin-api-key", "a"], { adminApiKey: "a" }],
  [["--allowed-origins", "*"], { allowedOrigins: ["*"] }],
  [["--allowed-hosts", "h"], { allowedHosts: ["h"] }],
  [["--host", "::"], { listensOn: "::" }],
  [["--max-payload-size", "1M"], { maxBodyBytes: 2 ** 20 }],
  [["--request-memory", "2M"], { requestMemory: 2 ** 21 }],
  [["--request-timeout-secs", "2"], { requestTimeout: 2000 }],
  [["--request-id-headers", "X-One", "x-two"], { requestIdHeaders: ["x-one", "x-two"] }],
  [["--max-concurrent-requests", "7"], { admission: { maxConcurrentRequests: 7 } }],
  [["--queue-size", "0"], { admission: { queueSize: 0 } }],
  [["--queue-timeout-secs", "3"], { admission: { queueTimeout: 3000 } }],
  [["--rate-limit-tokens-per-second", "9"], { admission: { requestsPerSecond: 9 } }],
  [["--dp-aware"], { knowsReplicas: true }],
  [["--retry-max-retries", "2"], { retries: { attempts: 2 } }],
  [["--disable-retries"], { retries: { attempts: 1 } }],
  [["--retry-initial-backoff-ms", "5"], { retries: { initialBackoff: 5 } }],
  [["--retry-max-backoff-ms", "60"], { retries: { maxBackoff: 60 } }],
  [["--retry-backoff-multiplier", "2"], { retries: { multiplier: 2 } }],
  [["--retry-jitter-factor", "0"], { retries: { jitter: 0 } }],
  [["--cb-failure-threshold", "4"], { breaker: { failureThreshold: 4 } }],
  [["--disable-circuit-breaker"], { breaker: { failureThreshold: Number.POSITIVE_INFINITY } }],
  [["--cb-success-threshold", "5"], { breaker: { successThreshold: 5 } }],
  [["--cb-timeout-duration-secs", "6"], { breaker: { openTime: 6000 } }],
  [["--cb-window-duration-secs", "7"], { breaker: { window: 7000 } }],
  [["--health-failure-threshold", "8"], { health: { failureThreshold: 8 } }],
  [["--health-success-threshold", "9"], { health: { successThreshold: 9 } }],
  [["--health-check-timeout-secs", "1"], { health: { timeout: 1000 } }],
  [["--health-check-interval-secs", "2"], { health: { interval: 2000 } }],
  [["--health-check-endpoint", "/up"], { health: { endpoint: "/up" } }],
  [["--worker-startup-timeout-secs", "3"], { health: { startupTimeout: 3000 } }],
  [["--worker-startup-check-interval", "4"], { health: { startupInterval: 4000 } }],
])("%j changes what it names and nothing else", (args, changed) => {
  const wanted: Record<string, unknown> = { ...DEFAULTS };
  for (const [key, value] of Object.entries(changed)) {
    const isGroup = typeof value === "object" && !Array.isArray(value);
    wanted[key] = isGroup ? { ...DEFAULTS[key as "retries"], ...value } : value;
  }
  expect(routerOptions(parse(...args))).toEqual(wanted);
});

test("the options of cache_aware reach its policy", () => {
  const workers = [0, 1].map(
    (i) => new Worker(`http://${i}`, new CircuitBreaker(DEFAULTS.breaker)),
  );
  /** What becomes of a prompt, half of which its worker was sent, and which has that much more to do. */
  const choice = (load: number, ...args: string[]) => {
    const policy = policyOf(parse(...args));
    for (const worker of workers) worker.inFlight = 0;
    const { target: worker } = policy.choose(workers, "ab".repeat(50));
    for (const one of workers) one.inFlight = one === worker ? load : 1;
    const { isHit, isBalancing } = policy.choose(workers, "ab".repeat(25) + "x".repeat(50));
    return [isHit, isBalancing];
  };
  expect(choice(1)).toEqual([true, undefined]);
  expect(choice(1, "--cache-threshold", "0.6")).toEqual([false, undefined]);
  expect(choice(1, "--max-tree-size", "100")).toEqual([false, undefined]);
  expect(choice(12)).toEqual([true, undefined]);
  expect(choice(12, "--balance-abs-threshold", "10")).toEqual([undefined, true]);
  const rel = ["--balance-abs-threshold", "10", "--balance-rel-threshold", "13"];
  expect(choice(12, ...rel)).toEqual([true, undefined]);
});

test.each(["random", "round_robin", "power_of_two", "cache_aware"])("--policy %s", (name) => {
  expect(policyOf(parse("--policy", name)).name).toBe(name);
});
