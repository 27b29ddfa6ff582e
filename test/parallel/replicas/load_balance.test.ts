/** A month of requests that arrive at replicas: what each method of choosing keeps to, and what it brings. */
import { describe, expect, test } from "vitest";
import { InvalidRequestError } from "../../../src/errors.ts";
import type { GenerationRequest } from "../../../src/generation.ts";
import {
  type BalancedReplica,
  LOAD_BALANCE_METHODS,
  type LoadBalance,
  type LoadBalanceMethod,
  loadBalance,
  promptTokens,
} from "../../../src/parallel/replicas/load_balance.ts";
import { seeded } from "../../support/seeded.ts";

const MONTH = 30 * 24 * 3600;
/** Requests that a replica computes at once. */
const PLACES = 4;

interface Arrival {
  /** Seconds since the month began. */
  readonly at: number;
  readonly request: GenerationRequest;
  /** Tokens of prompt and answer. */
  readonly tokens: number;
  /** Seconds that its answer takes, once it has a place. */
  readonly seconds: number;
}

/** A replica that computes `PLACES` requests at once, in the order in which they came. */
class SimulatedReplica implements BalancedReplica {
  readonly number: number;
  tokens = 0;
  answered = 0;
  waited = 0;
  #now = 0;
  readonly #waiting: Arrival[] = [];
  readonly #running: { readonly arrival: Arrival; readonly ends: number }[] = [];

  constructor(number: number) {
    this.number = number;
  }

  get load(): number {
    return this.#waiting.length + this.#running.length;
  }

  take(arrival: Arrival): void {
    this.tokens += arrival.tokens;
    this.#waiting.push(arrival);
    this.#start();
  }

  /** Lets the time pass. */
  until(time: number): void {
    for (;;) {
      this.#running.sort((a, b) => a.ends - b.ends);
      const [first] = this.#running;
      if (first === undefined || first.ends > time) break;
      this.#now = first.ends;
      this.#running.shift();
      this.tokens -= first.arrival.tokens;
      this.answered += 1;
      this.#start();
    }
    this.#now = time;
  }

  #start(): void {
    while (this.#running.length < PLACES && this.#waiting.length > 0) {
      const arrival = this.#waiting.shift()!;
      const begins = Math.max(this.#now, arrival.at);
      this.waited += begins - arrival.at;
      this.#running.push({ arrival, ends: begins + arrival.seconds });
    }
  }
}

/** More by day than by night; most answers are short, some very long. */
function* month(count: number, seed: number): Generator<Arrival> {
  const random = seeded(seed);
  let at = 0;
  for (let i = 0; i < count; i++) {
    const day = 1 + 0.5 * Math.sin((2 * Math.PI * at) / 86_400);
    at += (-Math.log(1 - random()) * MONTH) / count / day;
    const seconds = 80 * (1 - random()) ** -0.8;
    const tokens = 8 + Math.floor(4000 * random() ** 4);
    yield { at, request: { tokens: [i] }, tokens, seconds: Math.min(seconds, 20_000) };
  }
}

interface Course {
  readonly replicas: readonly SimulatedReplica[];
  /** Seconds that a request waited for its place, on average. */
  readonly wait: number;
}

/** @param look Called with each choice, before the request is there. */
function simulate(
  method: LoadBalanceMethod,
  arrivals: Iterable<Arrival>,
  look: (chosen: SimulatedReplica, all: readonly SimulatedReplica[]) => void = () => {},
): Course {
  const replicas = [0, 1, 2, 3].map((number) => new SimulatedReplica(number));
  const balance: LoadBalance<SimulatedReplica> = loadBalance(method);
  let count = 0;
  for (const arrival of arrivals) {
    for (const replica of replicas) replica.until(arrival.at);
    const chosen = balance.choose(replicas, arrival.request);
    look(chosen, replicas);
    chosen.take(arrival);
    count += 1;
  }
  for (const replica of replicas) replica.until(Number.POSITIVE_INFINITY);
  expect(replicas.reduce((sum, { answered }) => sum + answered, 0)).toBe(count);
  return { replicas, wait: replicas.reduce((sum, { waited }) => sum + waited, 0) / count };
}

/** At which all places are taken by day, and most by night. */
const REQUESTS = 60_000;

test("round robin gives each as many, at any time", () => {
  const counts = [0, 0, 0, 0];
  let mostApart = 0;
  simulate("round_robin", month(REQUESTS, 1), ({ number }) => {
    counts[number]! += 1;
    mostApart = Math.max(mostApart, Math.max(...counts) - Math.min(...counts));
  });
  expect(mostApart).toBe(1);
  expect(counts).toEqual([15_000, 15_000, 15_000, 15_000]);
});

test("round robin goes past those that are missing, and on behind the last", () => {
  const [a, b, c] = [0, 1, 2].map((number) => new SimulatedReplica(number)) as [
    ...[SimulatedReplica, SimulatedReplica, SimulatedReplica],
  ];
  const balance: LoadBalance<SimulatedReplica> = loadBalance("round_robin");
  const request = { tokens: [1] };
  const all = [a, b, c];
  expect([1, 2, 3, 4].map(() => balance.choose(all, request))).toEqual([a, b, c, a]);
  expect([1, 2, 3].map(() => balance.choose([a, c], request))).toEqual([c, a, c]);
  expect([1, 2].map(() => balance.choose([b], request))).toEqual([b, b]);
  expect(balance.choose(all, request)).toBe(c);
});

test("round robin takes the replica that the number of a room says, and no turn for it", () => {
  const all = [0, 1, 2].map((number) => new SimulatedReplica(number));
  const balance: LoadBalance<SimulatedReplica> = loadBalance("round_robin");
  const chosen = (room?: string) =>
    balance.choose(all, { tokens: [1], ...(room !== undefined && { bootstrap: { room } }) }).number;
  expect(["0", "4", "9223372036854775807", "4+1", "4+2"].map(chosen)).toEqual([0, 1, 1, 2, 0]);
  expect([undefined, "2", undefined].map(chosen)).toEqual([0, 2, 1]);
  // A name that is no number takes the next turn.
  expect(["a room", "7 "].map(chosen)).toEqual([2, 0]);
  expect(balance.choose(all.slice(1), { bootstrap: { room: "4" } }).number).toBe(1);
});

test("shortest queue never takes a longer one, of equal ones the first, and requests wait less", () => {
  let [wrong, uneven] = [0, 0];
  const { wait } = simulate("shortest_queue", month(REQUESTS, 1), (chosen, all) => {
    const least = all.reduce((few, { load }) => Math.min(few, load), Number.POSITIVE_INFINITY);
    if (chosen !== all.find(({ load }) => load === least)) wrong += 1;
    if (all.some(({ load }) => load > least)) uneven += 1;
  });
  expect(wrong).toBe(0);
  expect(uneven).toBeGreaterThan(REQUESTS / 2);
  const turns = simulate("round_robin", month(REQUESTS, 1));
  expect(turns.wait).toBeGreaterThan(10);
  expect(wait).toBeLessThan(turns.wait / 2);
});

test("minimum tokens never takes one that holds more, and the caches fill more evenly", () => {
  const unevenness = (method: LoadBalanceMethod) => {
    let [sum, wrong] = [0, 0];
    simulate(method, month(REQUESTS, 2), (chosen, all) => {
      const held = all.map(({ tokens }) => tokens);
      const [least, most] = [Math.min(...held), Math.max(...held)];
      if (chosen !== all.find(({ tokens }) => tokens === least)) wrong += 1;
      sum += most - least;
    });
    return { tokens: sum / REQUESTS, wrong };
  };
  const even = unevenness("minimum_tokens");
  expect(even.wrong).toBe(0);
  expect(even.tokens).toBeLessThan(unevenness("round_robin").tokens / 2);
  const queues = unevenness("shortest_queue");
  expect(queues.wrong).toBeGreaterThan(REQUESTS / 4);
  expect(even.tokens).toBeLessThan(queues.tokens / 1.2);
});

describe("cache aware", () => {
  /** Conversations that go on, each with what was said before it; many at the same time. */
  function* talks(count: number, seed: number): Generator<Arrival> {
    const random = seeded(seed);
    const talks: string[] = [];
    let i = 0;
    for (const arrival of month(count, seed)) {
      const which = Math.floor(random() * 200);
      const word = () => Math.floor(random() * 1e6).toString(36);
      const said = Array.from({ length: 12 }, word).join(" ");
      const before = talks[which] ?? "";
      talks[which] = before.length > 2000 ? said : `${before} ${said}`;
      i += 1;
      const salt = i % 5 === 0 ? { cacheSalt: "other" } : {};
      yield { ...arrival, request: { prompt: talks[which]!, ...salt } };
    }
  }

  /** Characters of prompts that a replica had seen lately, as a share of all. */
  function hitRate(method: LoadBalanceMethod, look?: Parameters<typeof simulate>[2]): number {
    const caches = [0, 1, 2, 3].map(() => [] as string[]);
    let [found, all] = [0, 0];
    const chosen: number[] = [];
    const arrivals = [...talks(6000, 3)];
    simulate(method, arrivals, (one, replicas) => {
      chosen.push(one.number);
      look?.(one, replicas);
    });
    for (const [i, { request }] of arrivals.entries()) {
      const cache = caches[chosen[i]!]!;
      const { prompt = "", cacheSalt = "" } = request;
      const salted = `${cacheSalt}|${prompt}`;
      const cached = cache.filter((one) => salted.startsWith(one));
      found += cached.reduce((most, one) => Math.max(most, one.length), 0);
      all += salted.length;
      cache.push(salted);
      // As many as a replica's cache has room for.
      if (cache.length > 150) cache.shift();
    }
    return found / all;
  }

  test("finds what was cached twice as often as turns do, and keeps loads together", () => {
    let wrong = 0;
    const aware = hitRate("cache_aware", (chosen, all) => {
      const loads = all.map(({ load }) => load);
      const [least, most] = [Math.min(...loads), Math.max(...loads)];
      // Else the one with the least load is chosen.
      if (most - least > 64 && most > 1.5 * least && chosen.load > least) wrong += 1;
    });
    expect(wrong).toBe(0);
    const turns = hitRate("round_robin");
    expect(turns).toBeGreaterThan(0.1);
    expect(aware).toBeGreaterThan(2 * turns);
  });

  test("takes one with little to do where the loads are far apart, whatever the prompt", () => {
    const balance: LoadBalance<BalancedReplica> = loadBalance("cache_aware");
    const replica = (number: number, load: number) => ({ number, load, tokens: 0 });
    const [busy, idle] = [replica(0, 0), replica(1, 0)];
    const request = { prompt: "Once upon a time there was a fox" };
    expect(balance.choose([busy, idle], request)).toBe(busy);
    busy.load = 64;
    expect(balance.choose([busy, idle], request)).toBe(busy);
    busy.load = 65;
    expect(balance.choose([busy, idle], request)).toBe(idle);
  });

  test("keeps salts apart, reads messages and tokens, and forgets", () => {
    const balance: LoadBalance<BalancedReplica> = loadBalance("cache_aware");
    const all = [0, 1].map((number) => ({ number, load: 0, tokens: 0 }));
    const choose = (request: GenerationRequest) => balance.choose(all, request).number;
    const text = "A long text that all of these prompts begin with, the longer the better";
    const messages = [{ role: "user", content: text }];
    expect(choose({ prompt: text })).toBe(0);
    expect(choose({ prompt: text, cacheSalt: "s" })).toBe(1);
    expect(choose({ prompt: `${text}!` })).toBe(0);
    expect(choose({ messages })).toBe(0);
    expect(choose({ prompt: `${text}?`, cacheSalt: "s" })).toBe(1);
    const home = choose({ tokens: [7, 8, 9, 10, 11] });
    expect(choose({ prompt: "Another one ".repeat(100) })).toBe(1 - home);
    expect(choose({ tokens: [7, 8, 9, 10, 12] })).toBe(home);
    balance.forget(all[1]!);
    expect(choose({ prompt: "Something else ".repeat(1000) })).toBe(1);
    expect(choose({ prompt: `${text}.`, cacheSalt: "s" })).toBe(0);
  });
});

test("an unknown method is refused", () => {
  const choose = () => loadBalance("shortest" as LoadBalanceMethod);
  expect(choose).toThrow(InvalidRequestError);
  expect(choose).toThrow(
    `Cannot use loadBalanceMethod "shortest": it must be one of ${LOAD_BALANCE_METHODS.join(", ")}`,
  );
});

test("tokens of prompts that no engine has read are as many as there are, of texts about as many", () => {
  expect(promptTokens({ tokens: [1, 2, 3] })).toBe(3);
  expect(promptTokens({ inputEmbeds: [[1], [2]] })).toBe(2);
  expect(promptTokens({ prompt: "a".repeat(81) })).toBe(21);
  expect(promptTokens({ messages: [{ role: "user", content: "a".repeat(8) }] })).toBe(2);
});
