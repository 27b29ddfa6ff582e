/**
 * Options of `wisp launch_router` to those of the router.
 *
 * @module
 */
import { EngineError } from "../../errors.ts";
import type { RouterOptions } from "../../router/app.ts";
import { CacheAwarePolicy } from "../../router/policy/cache_aware.ts";
import {
  type Policy,
  powerOfTwoPolicy,
  randomPolicy,
  roundRobinPolicy,
} from "../../router/policy/policy.ts";
import { workerUrl } from "../../router/worker/workers.ts";
import { requireUsableAccess } from "../options/access_options.ts";
import { OptionError } from "../options/option_parser.ts";
import { podRulesOf } from "./discovery_options.ts";
import { type GivenWorker, givenPairs } from "./pair_options.ts";
import type { RouterLaunchOptions } from "./router_options.ts";

const REQUEST_ID_HEADERS = ["x-request-id", "x-correlation-id", "x-trace-id", "request-id"];

/** What a name of a header may have. */
const HEADER_NAME = /^[\w!#$%&'*+.^`|~-]{1,100}$/;

/**
 * @returns The workers.
 * @throws {OptionError} for a value that the parser lets pass and that is of no use.
 */
export function requireUsable(options: RouterLaunchOptions): readonly GivenWorker[] {
  requireUsableAccess(options);
  const { healthCheckEndpoint, retryInitialBackoffMs, retryMaxBackoffMs } = options;
  const wrong = (option: string, state: string) =>
    new OptionError(`Cannot use option ${option}: ${state}`);
  if (retryMaxBackoffMs < retryInitialBackoffMs) {
    const least = `it must be at least --retry-initial-backoff-ms, ${retryInitialBackoffMs}`;
    throw wrong(`--retry-max-backoff-ms ${retryMaxBackoffMs}`, least);
  }
  if (!healthCheckEndpoint.startsWith("/")) {
    throw wrong(`--health-check-endpoint ${healthCheckEndpoint}`, "it must begin with /");
  }
  if (options.dpAware && options.pdDisaggregation) {
    throw wrong("--dp-aware", "prefill and decode servers choose among their replicas themselves");
  }
  const header = options.requestIdHeaders?.find((name) => !HEADER_NAME.test(name));
  if (header !== undefined) throw wrong(`--request-id-headers ${header}`, "it is no header's name");
  const found = new Set(podRulesOf(options)?.rules.map(({ role }) => role));
  const pairs = givenPairs(options, found);
  if (options.pdDisaggregation && options.workerUrls !== undefined) {
    throw wrong(
      "--worker-urls",
      "with --pd-disaggregation servers have roles: --prefill, --decode",
    );
  }
  const workers = [
    ...(options.workerUrls ?? []).map((url) => ({ url: addressOf("--worker-urls", url) })),
    ...pairs.map((worker) => ({ ...worker, url: addressOf(`--${worker.role}`, worker.url) })),
  ];
  const twice = workers.find(({ url }, i) => workers.findIndex((one) => one.url === url) !== i);
  if (twice !== undefined) throw wrong(`${twice.url}`, "it is given twice");
  // How many pods there are is not known.
  if (found.size === 0) requireTwo(options, workers);
  return workers;
}

function addressOf(flag: string, text: string): string {
  try {
    return workerUrl(text);
  } catch (cause) {
    if (!(cause instanceof EngineError)) throw cause;
    const rule = "it must be the http or https address of a worker";
    throw new OptionError(`Cannot use option ${flag} ${text}: ${rule}`, { cause });
  }
}

/** @throws {OptionError} where a policy that chooses of two has only one. */
function requireTwo(options: RouterLaunchOptions, workers: readonly GivenWorker[]): void {
  const { policy, prefillPolicy = policy, decodePolicy = policy, pdDisaggregation } = options;
  const refuse = (flag: string, state: string) => {
    throw new OptionError(`Cannot use option ${flag} power_of_two: ${state}`);
  };
  if (!pdDisaggregation) {
    // Of one worker's replicas there may be two.
    if (policy !== "power_of_two" || workers.length !== 1 || options.dpAware) return;
    refuse("--policy", "Power-of-two policy requires at least 2 workers");
  }
  const count = (role: string) => workers.filter((worker) => worker.role === role).length;
  const rule = "Power-of-two policy for";
  if (prefillPolicy === "power_of_two" && count("prefill") < 2) {
    refuse("--prefill-policy", `${rule} prefill requires at least 2 prefill workers`);
  }
  if (decodePolicy === "power_of_two" && count("decode") < 2) {
    refuse("--decode-policy", `${rule} decode requires at least 2 decode workers`);
  }
}

/** How workers of either role are chosen; undefined where they have none. */
export function pairPoliciesOf(options: RouterLaunchOptions): RouterOptions["pairPolicies"] {
  const { pdDisaggregation, policy, prefillPolicy = policy, decodePolicy = policy } = options;
  if (!pdDisaggregation) return undefined;
  return {
    prefill: policyOf({ ...options, policy: prefillPolicy }),
    decode: policyOf({ ...options, policy: decodePolicy }),
  };
}

/** How workers are chosen. */
export function policyOf(options: RouterLaunchOptions): Policy {
  switch (options.policy) {
    case "random":
      return randomPolicy();
    case "round_robin":
      return roundRobinPolicy();
    case "power_of_two":
      return powerOfTwoPolicy();
    case "cache_aware":
      return new CacheAwarePolicy(options);
    default:
      return options.policy satisfies never;
  }
}

export type OfOptions = Omit<
  RouterOptions,
  "policy" | "upstream" | "observer" | "lifecycle" | "reportError"
>;

/** What the options say of the router, times in milliseconds. */
export function routerOptions(options: RouterLaunchOptions): OfOptions {
  return {
    nodesKey: options.disaggregationKey,
    apiKey: options.apiKey,
    adminApiKey: options.adminApiKey,
    allowedOrigins: options.allowedOrigins,
    allowedHosts: options.allowedHosts,
    listensOn: options.host,
    maxBodyBytes: options.maxPayloadSize,
    requestMemory: options.requestMemory,
    requestTimeout: 1000 * options.requestTimeoutSecs,
    knowsReplicas: options.dpAware,
    requestIdHeaders: (options.requestIdHeaders ?? REQUEST_ID_HEADERS).map((name) =>
      name.toLowerCase(),
    ),
    admission: {
      maxConcurrentRequests: options.maxConcurrentRequests,
      queueSize: options.queueSize,
      queueTimeout: 1000 * options.queueTimeoutSecs,
      requestsPerSecond: options.rateLimitTokensPerSecond,
    },
    retries: {
      attempts: options.disableRetries ? 1 : options.retryMaxRetries,
      initialBackoff: options.retryInitialBackoffMs,
      maxBackoff: options.retryMaxBackoffMs,
      multiplier: options.retryBackoffMultiplier,
      jitter: options.retryJitterFactor,
    },
    breaker: breakerOf(options),
    health: healthOf(options),
  };
}

function breakerOf(options: RouterLaunchOptions): RouterOptions["breaker"] {
  const isOff = options.disableCircuitBreaker;
  return {
    failureThreshold: isOff ? Number.POSITIVE_INFINITY : options.cbFailureThreshold,
    successThreshold: options.cbSuccessThreshold,
    openTime: 1000 * options.cbTimeoutDurationSecs,
    window: 1000 * options.cbWindowDurationSecs,
  };
}

function healthOf(options: RouterLaunchOptions): RouterOptions["health"] {
  return {
    endpoint: options.healthCheckEndpoint,
    interval: 1000 * options.healthCheckIntervalSecs,
    timeout: 1000 * options.healthCheckTimeoutSecs,
    failureThreshold: options.healthFailureThreshold,
    successThreshold: options.healthSuccessThreshold,
    startupTimeout: 1000 * options.workerStartupTimeoutSecs,
    startupInterval: 1000 * options.workerStartupCheckInterval,
  };
}
