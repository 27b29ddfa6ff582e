/** Sequences whose rows lose the device: they are found by halves, and all others end as ever. */
import { describe, expect, test } from "vitest";
import { Suspects } from "../../../src/engine/schedule/suspects.ts";
import { DeviceError, RequestLosesDeviceError } from "../../../src/errors.ts";
import { scheduler, sequence } from "../../support/engines/sequences.ts";
import {
  SimulatedEngine,
  type SimulatedOptions,
} from "../../support/simulated/simulated_engine.ts";
import { answerOf } from "../../support/simulated/simulated_model.ts";

/** Rows of each of these from a position on, and so many tokens that are computed after them. */
const rows = (names: string, computed = 1, position = 0) =>
  [...names].map((sequence) => ({ sequence, position, computed }));

/** A loss with these in one step in flight, while all of `running` are there. */
function lose(suspects: Suspects<string>, names: string, running = "abcdefgh") {
  suspects.scheduled(rows(names));
  return suspects.lost([...running]);
}

/** A step of these that is computed; those that it clears. */
function compute(suspects: Suspects<string>, names: string, computed = 1): string {
  suspects.scheduled(rows(names, computed));
  return suspects.committed().join("");
}

const searching = (suspects: number) => ({ kind: "searching", suspects });
const found = (sequence: string, losses: number) => ({ kind: "found", sequence, losses });

/** Those that may run. */
const group = (suspects: Suspects<string>) =>
  [..."abcdefgh"].filter((one) => suspects.mayRun(one)).join("");

describe("suspects", () => {
  test("of one loss all run together, and are cleared by the rows that were lost", () => {
    const suspects = new Suspects<string>();
    suspects.scheduled(rows("ab", 7, 5));
    suspects.scheduled(rows("b", 9, 7));
    expect(suspects.lost([..."abc"])).toBeUndefined();
    expect(group(suspects)).toBe("abcdefgh");
    expect(compute(suspects, "ab", 6)).toBe("");
    expect(compute(suspects, "ab", 8)).toBe("a");
    expect(compute(suspects, "b", 9)).toBe("b");
    // A new loss begins anew.
    expect(lose(suspects, "ab")).toBeUndefined();
  });

  test("of a second loss run by halves, until one of them is found", () => {
    const suspects = new Suspects<string>();
    lose(suspects, "abcdefgh");
    expect(lose(suspects, "abcdefgh")).toEqual(searching(8));
    expect(group(suspects)).toBe("abcd");
    expect(compute(suspects, "abcd")).toBe("abcd");
    expect(group(suspects)).toBe("efgh");
    expect(lose(suspects, "efgh")).toEqual(searching(4));
    expect(group(suspects)).toBe("ef");
    expect(lose(suspects, "ef")).toEqual(searching(4));
    expect(lose(suspects, "e")).toEqual(found("e", 5));
    expect([group(suspects), compute(suspects, "f")]).toEqual(["f", "f"]);
    expect([group(suspects), compute(suspects, "gh")]).toEqual(["gh", "gh"]);
    expect([group(suspects), suspects.isSearching]).toEqual(["abcdefgh", false]);
  });

  test("are those that were in flight at both losses; others wait and are not searched", () => {
    const suspects = new Suspects<string>();
    lose(suspects, "abc");
    expect(lose(suspects, "bcd")).toEqual(searching(2));
    expect(group(suspects)).toBe("b");
    expect(lose(suspects, "b")).toEqual(found("b", 3));
    expect(compute(suspects, "c")).toBe("c");
    expect(suspects.isSearching).toBe(false);
    // One that was in flight once is a suspect still.
    expect(lose(suspects, "de")).toEqual(searching(1));
    expect(group(suspects)).toBe("d");
  });

  test("count from the newest loss where it has none of the same rows", () => {
    const suspects = new Suspects<string>();
    const loseRows = (computed: number, position: number) => {
      suspects.scheduled(rows("ab", computed, position));
      return suspects.lost([..."ab"]);
    };
    expect(loseRows(30, 20)).toBeUndefined();
    // Rows that a device has computed before.
    expect(loseRows(12, 4)).toBeUndefined();
    expect(loseRows(16, 8)).toEqual(searching(2));
    // What is the same of the two.
    suspects.scheduled(rows("a", 12, 11));
    expect(suspects.lost([..."ab"])).toEqual(found("a", 3));
    // One that is searched may turn out to be none of those.
    suspects.scheduled(rows("b", 8, 0));
    expect(suspects.lost(["b"])).toBeUndefined();
    expect(suspects.isSearching).toBe(false);
    expect(compute(suspects, "b", 8)).toBe("b");
  });

  test("that a search has cleared without another found run to their ends the next time", () => {
    const suspects = new Suspects<string>();
    const search = () => {
      lose(suspects, "ab");
      lose(suspects, "ab");
    };
    search();
    expect([compute(suspects, "a"), compute(suspects, "b")]).toEqual(["a", "b"]);
    search();
    expect([compute(suspects, "a"), compute(suspects, "a", 9), group(suspects)]).toEqual([
      "",
      "",
      "a",
    ]);
    suspects.forget("a");
    expect([compute(suspects, "b"), group(suspects)]).toEqual(["", "b"]);
    suspects.forget("b");
    expect(suspects.isSearching).toBe(false);
    // Not those beside which another one was found.
    lose(suspects, "cd");
    lose(suspects, "cd");
    expect([compute(suspects, "c"), lose(suspects, "d")]).toEqual(["c", found("d", 3)]);
    lose(suspects, "ce");
    lose(suspects, "ce");
    expect(compute(suspects, "c")).toBe("c");
  });

  test("without rows in flight are as suspect as before", () => {
    const suspects = new Suspects<string>();
    lose(suspects, "abcd");
    lose(suspects, "abcd");
    expect(lose(suspects, "a")).toEqual(found("a", 3));
    expect(group(suspects)).toBe("b");
    expect(suspects.lost([..."bcd"])).toBeUndefined();
    expect(group(suspects)).toBe("b");
    expect(lose(suspects, "b")).toEqual(found("b", 3));
    expect(group(suspects)).toBe("cd");
  });

  test("that leave are forgotten, and one is not found while another's rows were in flight", () => {
    const suspects = new Suspects<string>();
    lose(suspects, "ab");
    lose(suspects, "ab");
    suspects.forget("a");
    expect(group(suspects)).toBe("b");
    suspects.forget("b");
    expect([group(suspects), suspects.isSearching]).toEqual(["abcdefgh", false]);
    lose(suspects, "cd");
    lose(suspects, "cd");
    expect(lose(suspects, "cd", "c")).toEqual(searching(2));
    suspects.forget("d");
    expect(lose(suspects, "c", "c")).toEqual(found("c", 4));
  });

  test("alone are found at the third loss, as two may be chance", () => {
    const suspects = new Suspects<string>();
    expect(lose(suspects, "a", "a")).toBeUndefined();
    expect(lose(suspects, "a", "a")).toEqual(searching(1));
    expect(lose(suspects, "a", "a")).toEqual(found("a", 3));
    expect(suspects.isSearching).toBe(false);
  });
});

test("while suspects run apart all other sequences wait, and one that begins elsewhere has no place", () => {
  const { scheduler: s } = scheduler(32, 4);
  const [first, second] = [sequence(6, 4).sequence, sequence(6, 4).sequence];
  const [late, elsewhere] = [sequence(3, 4).sequence, sequence(3, 4).sequence];
  s.add(first);
  s.add(second);
  const lost = new DeviceError("The device is lost");
  const inStep = () => {
    const step = s.schedule();
    return { step, sequences: step?.progress.map((one) => one.sequence) };
  };
  s.schedule();
  s.schedule();
  expect(s.restart(lost)).toBeUndefined();
  s.schedule();
  s.schedule();
  expect(s.restart(lost)).toEqual({ kind: "searching", suspects: 2 });
  s.add(late);
  expect(s.reserve(elsewhere, 2)).toBeUndefined();
  const { step, sequences } = inStep();
  expect(sequences).toEqual([first]);
  expect(s.schedule()).toBeUndefined();
  s.commit(step!, Uint32Array.of(9));
  const next = inStep();
  expect(next.sequences).toEqual([second]);
  s.commit(next.step!, Uint32Array.of(9));
  expect(s.reserve(elsewhere, 2)).toBeDefined();
  expect(inStep().sequences).toContain(late);
});

const variants: readonly SimulatedOptions[] = [
  { pageCount: 400, pageSize: 4 },
  { pageCount: 400, pageSize: 4, ahead: 2, shared: true },
  { pageCount: 400, pageSize: 4, ahead: 1, shared: true, mixedChunks: true },
  // Too little for all: some are retracted, to host memory.
  { pageCount: 24, pageSize: 4, ahead: 1, conservativeness: 0, hostSlots: 60, shared: true },
];

/** The token whose row loses the device: of the prompt, its last, the answer's first, a later one. */
const PLACES = [3, 20, 21, 27] as const;
const PROMPT = 20;

interface Case {
  readonly count: number;
  readonly culprits: readonly number[];
  readonly place: number;
}

/** Runs requests of which some lose the device with the row at a place, until all have ended. */
async function run(options: SimulatedOptions, { count, culprits, place }: Case) {
  const engine = new SimulatedEngine({ maxRunningRequests: 8, maxRows: 16, ...options });
  const sequences = Array.from({ length: count }, (_, i) => {
    const prompt = Array.from({ length: PROMPT }, (_, at) => 2 + ((7 * i + at * (i + 1)) % 60));
    return engine.add({ prompt, maxNewTokens: 10 });
  });
  // So that each gets far enough to lose the device, as its answer is not the end token.
  const bad = culprits.map((i) => sequences[i]!);
  engine.losesWith = ({ progress }) => {
    if (engine.counts.losses > 100) throw new Error("devices are lost for ever");
    return progress.some(
      ({ sequence, position, computed }) =>
        bad.includes(sequence) && position < place && computed >= place,
    );
  };
  const ends = sequences.map((one) => PROMPT + answerOf(one).length > place);
  await engine.run();
  engine.checkIdle();
  return { engine, sequences, bad: bad.filter((one) => ends[sequences.indexOf(one)]) };
}

/** Losses that suffice for one: it is in flight twice with all others, then its group is halved. */
const mostLosses = (count: number) => Math.max(3, 2 + Math.ceil(Math.log2(count)));

describe.each(variants)("over a simulated GPU: %o", (options) => {
  const cases = [1, 2, 3, 8].flatMap((count) =>
    PLACES.flatMap((place) =>
      Array.from({ length: count }, (_, i): Case => ({ count, culprits: [i], place })),
    ),
  );

  test("one that loses the device ends, wherever it stands, and no other", async () => {
    let ended = 0;
    for (const one of cases) {
      const { engine, bad } = await run(options, one);
      expect([...engine.errors.keys()], JSON.stringify(one)).toEqual(bad);
      for (const error of engine.errors.values()) {
        expect(error).toBeInstanceOf(RequestLosesDeviceError);
      }
      expect(engine.counts.ended).toBe(one.count - bad.length);
      expect(engine.counts.losses).toBeLessThanOrEqual(mostLosses(one.count));
      ended += bad.length;
    }
    expect(ended).toBeGreaterThan(cases.length / 2);
  });

  test.each([[[0, 1]], [[0, 7]], [[2, 5]], [[0, 1, 2, 3, 4, 5, 6, 7]]])(
    "several of eight do: %j",
    async (culprits) => {
      for (const place of PLACES) {
        const { engine, bad } = await run(options, { count: 8, culprits, place });
        expect(new Set(engine.errors.keys())).toEqual(new Set(bad));
        expect(engine.counts.losses).toBeLessThanOrEqual(culprits.length * mostLosses(8));
      }
    },
  );

  test.each([
    { together: [0, 1], most: 2 * mostLosses(8) },
    { together: [0, 1, 2, 3, 4, 5, 6, 7], most: 2 * (2 + 7) },
  ])("those that lose it only together, two of $together, end well", async ({ together, most }) => {
    const engine = new SimulatedEngine({ maxRunningRequests: 8, ...options });
    for (let i = 0; i < 8; i++) engine.add({ prompt: [2 + i, 30, 31 + i], maxNewTokens: 9 });
    const heavy = [...engine.live].filter((_, i) => together.includes(i));
    engine.losesWith = ({ progress }) =>
      progress.filter(({ sequence }) => heavy.includes(sequence)).length > 1;
    await engine.run();
    engine.checkIdle();
    expect([engine.errors.size, engine.counts.ended]).toEqual([0, 8]);
    expect(engine.counts.losses).toBeGreaterThan(1);
    expect(engine.counts.losses).toBeLessThanOrEqual(most);
  });
});
