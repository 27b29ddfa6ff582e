/**
 * What a token costs more when the engine is behind a port: `RemoteEngine` and `serveEngine` over a
 * `MessageChannel`, beside the same engine asked directly. The engine computes nothing.
 *
 * Both ends are in one thread, so that the figures hold the work of both. "delay" is the time from
 * a step's tokens to the last loop that has them.
 *
 * @module
 */
import { cpus } from "node:os";
import { performance } from "node:perf_hooks";
import { afterAll, beforeAll, expect, test } from "vitest";
import { messagePort } from "../src/engine/remote/port.ts";
import { RemoteEngine } from "../src/engine/remote/remote_engine.ts";
import { serveEngine } from "../src/engine/remote/serve_engine.ts";
import type { GenerationEngine } from "../src/generation.ts";
import { ScriptedEngine } from "../test/support/engines/scripted_engine.ts";
import { table } from "./support/table.ts";

const STEPS = 400;
const ROUNDS = 5;
/** Microseconds of a token that the proxy may add. */
const MOST_ADDED = 1000;
const PIECE = " token";

/** The steps of an engine: every sequence has its token when the step ends. */
class StepClock {
  #waiting: (() => void)[] = [];
  /** When the last step ended. */
  at = 0;

  wait = () => new Promise<void>((resolve) => this.#waiting.push(resolve));

  end(): void {
    const waiting = this.#waiting;
    this.#waiting = [];
    this.at = performance.now();
    for (const resolve of waiting) resolve();
  }
}

const clock = new StepClock();
const engine = new ScriptedEngine({
  script: () => ({ pieces: Array.from({ length: STEPS }, () => PIECE), gate: clock.wait }),
});
const channel = new MessageChannel();
let remote: RemoteEngine;
let stop: () => void;

beforeAll(async () => {
  stop = serveEngine(engine, messagePort(channel.port1));
  remote = await RemoteEngine.connect(messagePort(channel.port2));
  console.log(`${cpus()[0]!.model}, Node ${process.versions.node}`);
});
afterAll(() => stop());

interface Cost {
  /** Microseconds of a token, of processor time. */
  readonly cpu: number;
  /** Microseconds, the median of the steps. */
  readonly delay: number;
}

/** One round: so many requests at once, a step ending when all of them have the last one's tokens. */
async function round(from: GenerationEngine, sequences: number): Promise<Cost> {
  const delays: number[] = [];
  let taken = 0;
  let tokens = 0;
  const consume = async () => {
    let text = "";
    for await (const chunk of from.generate({ prompt: "a" })) {
      text += chunk.text;
      tokens += chunk.tokens.length;
      taken += 1;
    }
    expect(text).toBe(PIECE.repeat(STEPS));
  };
  const turn = () => new Promise((resolve) => setImmediate(resolve));
  const before = process.cpuUsage();
  const loops = Promise.all(Array.from({ length: sequences }, consume));
  while (engine.running.length < sequences) await turn();
  // The last step is the token that ends the sequence.
  for (let step = 0; step <= STEPS; step++) {
    taken = 0;
    clock.end();
    while (taken < sequences) await turn();
    delays.push(1000 * (performance.now() - clock.at));
  }
  await loops;
  const { user, system } = process.cpuUsage(before);
  expect(tokens).toBe(sequences * (STEPS + 1));
  return { cpu: (user + system) / tokens, delay: delays.sort((a, b) => a - b)[STEPS >> 1]! };
}

function least(costs: readonly Cost[]): Cost {
  return {
    cpu: Math.min(...costs.map(({ cpu }) => cpu)),
    delay: Math.min(...costs.map(({ delay }) => delay)),
  };
}

test("a token through a port", async () => {
  const lines: string[][] = [];
  for (const sequences of [1, 8, 32]) {
    const costs = { direct: [] as Cost[], remote: [] as Cost[] };
    for (let i = 0; i < ROUNDS; i++) {
      costs.direct.push(await round(engine, sequences));
      costs.remote.push(await round(remote, sequences));
    }
    const [direct, through] = [least(costs.direct), least(costs.remote)];
    const added = through.cpu - direct.cpu;
    const us = (value: number) => `${value.toFixed(0)} us`;
    lines.push([
      ...[`${sequences}`, us(direct.cpu), us(through.cpu), us(added)],
      ...[us(direct.delay), us(through.delay)],
    ]);
    expect(added).toBeLessThan(MOST_ADDED);
    expect(through.delay - direct.delay).toBeLessThan(MOST_ADDED * sequences);
  }
  const header = ["sequences", "CPU a token", "through a port", "added", "delay", "through a port"];
  console.log(table(header, lines));
}, 300_000);
