/**
 * What every endpoint of the router is given.
 *
 * @module
 */
import type { BodyMemory } from "../http/body_memory.ts";
import type { Admission } from "./admission.ts";
import type { DecodeNodes } from "./nodes/decode_nodes.ts";
import type { RouterObserver } from "./observer.ts";
import type { Policy } from "./policy/policy.ts";
import type { HealthChecks } from "./worker/health_checks.ts";
import type { PairWarmth } from "./worker/pair_warmth.ts";
import type { Upstream } from "./worker/upstream.ts";
import type { Workers } from "./worker/workers.ts";

export interface RetryOptions {
  /** Attempts at most, the first one among them. */
  readonly attempts: number;
  /** Milliseconds before the second attempt. */
  readonly initialBackoff: number;
  /** Milliseconds before an attempt at most. */
  readonly maxBackoff: number;
  /** How many times as long each further one waits. */
  readonly multiplier: number;
  /** Share of the wait by which chance makes it longer or shorter. */
  readonly jitter: number;
}

/** Of a router whose workers share each request, one of either role. */
export interface PairSetting {
  readonly policies: { readonly prefill: Policy; readonly decode: Policy };
  readonly warmth: PairWarmth;
}

export interface RouterContext {
  /** Absent where each worker answers requests of its own. */
  readonly pairs: PairSetting | undefined;
  /** Absent where pages of browsers answer nothing. */
  readonly nodes: DecodeNodes | undefined;
  readonly workers: Workers;
  /** Whether replicas behind a worker's port are chosen one by one. */
  readonly knowsReplicas: boolean;
  readonly policy: Policy;
  readonly upstream: Upstream;
  readonly checks: HealthChecks;
  readonly admission: Admission;
  readonly retries: RetryOptions;
  readonly observer: RouterObserver;
  readonly bodies: BodyMemory;
  /** Size of a request body at most. */
  readonly maxBodyBytes: number;
  /** Milliseconds of a whole request, streams too. */
  readonly requestTimeout: number;
  /** What the router shows to workers where it asks for itself. */
  readonly apiKey: string | undefined;
}
