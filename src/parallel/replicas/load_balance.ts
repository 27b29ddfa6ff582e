/**
 * How a replica is chosen for a request.
 *
 * @module
 */
import { InvalidRequestError } from "../../errors.ts";
import type { GenerationRequest } from "../../generation.ts";
import { leastLoaded, type Place, PrefixBalance } from "../balance/prefix_balance.ts";
import { promptText } from "../balance/prompt_text.ts";

/**
 * `round_robin` takes one after the other, of requests that a prefill and a decode server share the one
 * that the room's number says, `shortest_queue` the one with the fewest requests,
 * `minimum_tokens` the one that holds and waits for the fewest tokens, `cache_aware` the one that was
 * sent what begins like the prompt.
 */
export const LOAD_BALANCE_METHODS = [
  ...(["round_robin", "shortest_queue", "minimum_tokens", "cache_aware"] as const),
] as const;
export type LoadBalanceMethod = (typeof LOAD_BALANCE_METHODS)[number];

/** A replica as methods see it. */
export interface BalancedReplica extends Place {
  /** From 0. */
  readonly number: number;
  /** That it holds for its requests, and prompts that have not begun there. */
  readonly tokens: number;
}

export interface LoadBalance<R extends BalancedReplica> {
  /** Whether it looks at tokens: else no prompt is measured. */
  readonly countsTokens?: boolean;
  /**
   * @param replicas Of all those that requests may go to now, in the order of their numbers; at least
   * one.
   */
  choose(replicas: readonly R[], request: GenerationRequest): R;
  /** What a replica had cached is gone. */
  forget(replica: R): void;
}

/** Of what prompts had in common with earlier ones: as the router has them by default. */
const PREFIXES = {
  cacheThreshold: 0.3,
  balanceAbsThreshold: 64,
  balanceRelThreshold: 1.5,
  maxTreeSize: 2 ** 26,
};

/** @throws {InvalidRequestError} where there is no such method. */
export function loadBalance<R extends BalancedReplica>(method: LoadBalanceMethod): LoadBalance<R> {
  switch (method) {
    case "round_robin":
      return roundRobin();
    case "shortest_queue":
      return plain((replicas) => leastLoaded(replicas));
    case "minimum_tokens":
      return minimumTokens();
    case "cache_aware":
      return cacheAware();
    default:
      throw new InvalidRequestError(
        `Cannot use loadBalanceMethod ${JSON.stringify(method satisfies never)}: it must be one of ${LOAD_BALANCE_METHODS.join(", ")}`,
        "loadBalanceMethod",
      );
  }
}

function plain<R extends BalancedReplica>(choose: LoadBalance<R>["choose"]): LoadBalance<R> {
  return { choose, forget: () => {} };
}

function minimumTokens<R extends BalancedReplica>(): LoadBalance<R> {
  const choose = (replicas: readonly R[]) =>
    replicas.reduce((least, one) => (one.tokens < least.tokens ? one : least));
  return { ...plain(choose), countsTokens: true };
}

/** Goes on behind the one that was chosen last, past those that are missing, or where a room says. */
function roundRobin<R extends BalancedReplica>(): LoadBalance<R> {
  let turn = 0;
  return plain((replicas, { bootstrap }) => {
    const room = bootstrap && roomNumber(bootstrap.room);
    if (room !== undefined) return replicas[Number(room % BigInt(replicas.length))]!;
    const chosen = replicas.find(({ number }) => number >= turn) ?? replicas[0]!;
    turn = chosen.number + 1;
    return chosen;
  });
}

/** Of a room that servers have named: its number, and behind it the place of one of several answers. */
const ROOM = /^(\d{1,19})(?:\+(\d{1,9}))?$/;

function roomNumber(room: string): bigint | undefined {
  const [, number, place = "0"] = ROOM.exec(room) ?? [];
  return number === undefined ? undefined : BigInt(number) + BigInt(place);
}

function cacheAware<R extends BalancedReplica>(): LoadBalance<R> {
  const balance = new PrefixBalance<R>(PREFIXES);
  return {
    choose: (replicas, request) => balance.choose(replicas, cachedAs(request)).place,
    forget: (replica) => void balance.forget(replica),
  };
}

/** Prompts with different salts share nothing, however they begin. */
function cachedAs({ prompt, messages, tokens, cacheSalt }: GenerationRequest): string {
  const text = promptText({ prompt, messages, input_ids: tokens });
  return cacheSalt === undefined ? text : `${JSON.stringify(cacheSalt)} ${text}`;
}

/** UTF-16 units that a token of a text has about. */
const UNITS_PER_TOKEN = 4;

/** Tokens of a prompt that no engine has read yet: of a text about as many. */
export function promptTokens(request: GenerationRequest): number {
  const { tokens, inputEmbeds } = request;
  const rows = tokens ?? inputEmbeds;
  if (rows !== undefined) return rows.length;
  return Math.ceil(promptText(request).length / UNITS_PER_TOKEN);
}
