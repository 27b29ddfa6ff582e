/**
 * One of several engines with the same model, as requests are shared out among them.
 *
 * @module
 */
import type { EngineStatus, GenerationEngine } from "../../generation.ts";
import type { BalancedReplica } from "./load_balance.ts";

/**
 * Whether requests may go there, the best last: it is gone for good; it ends once it has answered what it
 * was asked; its device is being replaced; no step of it has finished for long; it has no place; it has.
 */
const STANDINGS = ["gone", "draining", "recovering", "stalled", "full", "usable"] as const;
type Standing = (typeof STANDINGS)[number];

/** A request that was sent to a replica. */
export interface SentRequest {
  /** The engine has accepted it: its status counts it from now on. */
  accept(): void;
  /** It has ended, in whatever way. */
  end(): void;
}

export class Replica implements BalancedReplica {
  readonly number: number;
  readonly engine: GenerationEngine;
  /** As of the last look. */
  load = 0;
  tokens = 0;
  #standing = 0;
  /** How often it has begun with an empty cache. */
  #losses = 0;
  /** Requests that were sent and have not ended. */
  #inFlight = 0;
  /** Those of them that have not been accepted, and the tokens of their prompts. */
  #unread = 0;
  #unreadTokens = 0;

  constructor(engine: GenerationEngine, number: number) {
    this.engine = engine;
    this.number = number;
  }

  /**
   * Looks how it is.
   *
   * @param stallSeconds Without a finished step, while it has work, that are too many.
   * @returns Whether it has lost what it had cached since the last look.
   */
  look(stallSeconds: number): boolean {
    const status = this.engine.status();
    // What was generated and not been read is no work any more, and a status may be late.
    const known = status.runningRequests + status.queuedRequests + this.#unread;
    this.load = Math.min(this.#inFlight, known);
    this.tokens = status.usedTokens + status.queuedTokens + this.#unreadTokens;
    this.#standing = STANDINGS.indexOf(this.#standingOf(status, stallSeconds));
    const losses = status.recoveries + (status.restarts ?? 0);
    // Where a whole node has come again, it counts anew.
    const hasLost = losses !== this.#losses;
    this.#losses = losses;
    return hasLost;
  }

  /** Those that requests had better go to, as of their last looks. */
  static best(replicas: readonly Replica[]): readonly Replica[] {
    const most = replicas.reduce((best, one) => Math.max(best, one.#standing), 0);
    return replicas.filter((one) => one.#standing === most);
  }

  /** A request is sent there. @param tokens Of its prompt. */
  send(tokens: number): SentRequest {
    this.#inFlight += 1;
    this.#unread += 1;
    this.#unreadTokens += tokens;
    let isRead = false;
    let isOver = false;
    const accept = () => {
      if (isRead) return;
      isRead = true;
      this.#unread -= 1;
      this.#unreadTokens -= tokens;
    };
    const end = () => {
      accept();
      if (!isOver) this.#inFlight -= 1;
      isOver = true;
    };
    return { accept, end };
  }

  #standingOf(status: EngineStatus, stallSeconds: number): Standing {
    const { healthy, recovering, stalledFor, maxRunningRequests, maxQueuedRequests } = status;
    if (!healthy && !recovering) return "gone";
    if (status.draining) return "draining";
    if (recovering) return "recovering";
    if (stalledFor >= stallSeconds) return "stalled";
    const places = maxRunningRequests + (maxQueuedRequests ?? Number.POSITIVE_INFINITY);
    return this.load < places ? "usable" : "full";
  }
}
