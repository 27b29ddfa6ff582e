import { expect, test } from "vitest";
import { FROM_SAMPLED } from "../../kernels/embedding/embedding.ts";
import { carryOut } from "../../src/engine/page_transfers.ts";
import { SCHEDULE_POLICIES } from "../../src/engine/schedule_policy.ts";
import type { ScheduledStep } from "../../src/engine/scheduler.ts";
import type { Sequence } from "../../src/engine/sequence.ts";
import { scheduler, sequence, slotCopier, slotMemory } from "../support/sequences.ts";

const SEEDS = process.env.WISP_TEST_FULL === "1" ? 60 : 6;
test.each(Array.from({ length: SEEDS }, (_, i) => i + 1))(
  "every row finds what it needs in the cache, and no page is lost (seed %i)",
  (seed) => simulate(seed),
);

/** What a simulated GPU knows. */
interface Played {
  readonly pageSize: number;
  /** Whether a generated token is another thing in the cache than the same one in a prompt. */
  readonly promptsDiffer: boolean;
  /** What stands in each slot of the cache: a number for the prefix whose last token is there. */
  readonly slots: Map<number, number>;
  /** Tokens of each sequence, those included that nobody has seen yet. */
  readonly tokens: Map<Sequence, number[]>;
  /** What the newest step has sampled. */
  sampled: Uint32Array;
}

/** Random requests over a simulated GPU, with up to `seed % 3` steps scheduled ahead of the oldest. */
async function simulate(seed: number): Promise<void> {
  let state = seed * 7919;
  const random = (below: number) => {
    state = (Math.imul(state, 1664525) + 1013904223) >>> 0;
    return Math.floor((state / 2 ** 32) * below);
  };
  const pageSize = [1, 2, 3, 8][seed % 4]!;
  const slots = new Map<number, number>();
  const promptsDiffer = seed % 5 === 0;
  const played: Played = {
    pageSize,
    promptsDiffer,
    slots,
    tokens: new Map(),
    sampled: new Uint32Array(0),
  };
  const inFlight: { readonly step: ScheduledStep; readonly ids: Uint32Array }[] = [];
  const memory = slotMemory([0, 100, 10_000][Math.floor(seed / 2) % 3]!, slots, pageSize);
  const movers = { retractionMemory: memory, copier: slotCopier(slots, pageSize) };
  const {
    scheduler: s,
    pool,
    pages,
  } = scheduler(Math.ceil(120 / pageSize), pageSize, {
    shared: seed % 3 > 0,
    promptsDiffer,
    retractionMemory: memory,
    mixedChunks: seed % 2 === 0,
    policy: SCHEDULE_POLICIES[seed % SCHEDULE_POLICIES.length]!,
    conservativeness: [0, 0.5, 1][random(3)]!,
  });
  const live = new Set<Sequence>();
  let retractions = 0;
  let restores = 0;
  let copies = 0;
  let ahead = 0;
  for (let turn = 0; turn < 2500; turn++) {
    if (random(4) === 0 && turn < 1200 && live.size < 12) {
      const partition = ["a", undefined][random(2)];
      const options = { first: random(2) * 7, partition, priority: random(2) };
      const { sequence: made } = sequence(1 + random(60), 1 + random(40), {}, options);
      s.add(made);
      live.add(made);
      played.tokens.set(made, [...made.tokens]);
    }
    const leave = (candidates: readonly Sequence[]) => {
      const victim = random(20) === 0 ? candidates[random(candidates.length)] : undefined;
      if (victim === undefined) return;
      s.remove(victim);
      victim.abort("left");
      live.delete(victim);
    };
    leave([...live]);
    const step = s.schedule();
    if (step !== undefined) {
      restores += step.transfers.restores.length;
      copies += step.transfers.copies.length;
      const moving = carryOut(step.transfers, movers);
      const inStep = new Set(step.progress.map((one) => one.sequence));
      leave([...live].filter((one) => !inStep.has(one)));
      await moving;
      expect(memory.usedBytes).toBeLessThanOrEqual(memory.budget);
      checkStep(step, played);
      const ids = Uint32Array.from(step.sampled, () => 2 + random(62));
      step.sampled.forEach((one, i) => {
        played.tokens.get(one)!.push(ids[i]!);
      });
      played.sampled = ids;
      inFlight.push({ step, ids });
      ahead = Math.max(ahead, inFlight.length - 1);
    }
    leave([...live]);
    const own = [...live].flatMap((one) => one.pageTable.slice(pool.pagesFor(one.sharedTokens)));
    expect(new Set(own).size).toBe(own.length);
    if (step !== undefined && inFlight.length <= seed % 3) continue;
    const oldest = inFlight.shift();
    if (oldest === undefined) continue;
    s.commit(oldest.step, oldest.ids);
    for (const one of live) {
      if (one.finish === null) continue;
      retractions += one.retractions;
      live.delete(one);
    }
  }
  expect(live.size).toBe(0);
  expect(s.hasWork).toBe(false);
  expect(pages.available).toBe(pool.pageCount);
  expect(memory.usedBytes).toBe(0);
  expect(ahead).toBe(seed % 3);
  if (seed === 1) expect(retractions).toBeGreaterThan(0);
  if (seed === 4) expect(restores).toBeGreaterThan(0);
  if (seed === 2) expect(copies).toBeGreaterThan(0);
}

/** Plays the step's writes, then checks that each sequence reads the prefixes that it should. */
function checkStep(
  { batch, progress }: ScheduledStep,
  { pageSize, promptsDiffer, slots, tokens, sampled }: Played,
): void {
  expect(batch.sources.length).toBeLessThanOrEqual(16);
  const written = new Set<number>();
  let row = 0;
  let prefill = false;
  const prefixes = progress.map(({ sequence }) => {
    const prompt = promptsDiffer ? sequence.promptLength : Number.POSITIVE_INFINITY;
    return prefixHashes(tokens.get(sequence)!, sequence.partition, prompt);
  });
  const slotOf = (table: readonly number[], at: number) =>
    table[Math.floor(at / pageSize)]! * pageSize + (at % pageSize);
  batch.sequences.forEach((q, i) => {
    const { sequence: owner, computed } = progress[i]!;
    prefill ||= q.phase === "prefill";
    // Generated rows stand in front, and each row runs the form that belongs to its token.
    expect(q.phase).toBe(prefill ? "prefill" : "decode");
    expect(q.position < owner.promptLength).toBe(prefill);
    if (prefill) expect(computed).toBeLessThanOrEqual(owner.promptLength);
    expect([q.queryStart, computed]).toEqual([row, q.position + q.queryLength]);
    const sources = Array.from(batch.sources.subarray(row, row + q.queryLength), (source, j) => {
      const isKnown = q.position + j < owner.tokens.length;
      expect(source < FROM_SAMPLED).toBe(isKnown);
      return isKnown ? source : sampled[source - FROM_SAMPLED];
    });
    expect(sources).toEqual(tokens.get(owner)!.slice(q.position, computed));
    for (let at = q.position; at < computed; at++) {
      const slot = slotOf(q.pageTable, at);
      expect(written.has(slot)).toBe(false);
      written.add(slot);
      slots.set(slot, prefixes[i]![at]!);
    }
    row += q.queryLength;
  });
  batch.sequences.forEach((q, i) => {
    for (let at = 0; at < progress[i]!.computed; at++) {
      expect(slots.get(slotOf(q.pageTable, at))).toBe(prefixes[i]![at]);
    }
  });
}

/** A number for each prefix of tokens, its partition included, and where the prompt ends. */
function prefixHashes(
  tokens: readonly number[],
  partition: string | undefined,
  promptLength: number,
): number[] {
  let hash = partition === undefined ? 7 : 11;
  return tokens.map((token, i) => {
    hash = Math.imul(hash ^ (i < promptLength ? token : ~token), 16777619) >>> 0;
    return hash;
  });
}
