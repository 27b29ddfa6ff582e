/**
 * What a router tells of itself: to its log and to what counts.
 *
 * @module
 */
import type { PolicyName } from "./policy/policy.ts";
import type { Outcome } from "./worker/breaker.ts";

/** A line of the log, and what a program reads in its place. */
export interface RouterEvent {
  readonly level: "debug" | "info" | "warning" | "error";
  readonly text: string;
  readonly fields: Readonly<Record<string, unknown>>;
}

/** Counts what happens; must not throw. */
export interface RouterObserver {
  event(event: RouterEvent): void;
  /** A request has ended. @param error The kind of error where it failed. */
  request(route: string, seconds: number, error?: string): void;
  /** A request is tried again, after so many seconds. @param attempt The one that failed, from 1. */
  retry(route: string, attempt: number, seconds: number): void;
  /** No attempt was left. */
  exhausted(route: string): void;
  decision(policy: PolicyName, worker: string): void;
  /** Whether a prompt's beginning had been sent to the worker; undefined where loads decided. */
  prefix(isHit: boolean | undefined): void;
  outcome(worker: string, outcome: Outcome): void;
  breaker(worker: string, from: string, to: string): void;
  /** An answer broke off after its first bytes were sent. */
  brokenStream(worker: string): void;
  /** A cluster told of its pods, and that one has become a worker or is none any more. */
  discovery(what: "update" | "added" | "removed"): void;
  /** A worker is no more. */
  removed(worker: string): void;
}
