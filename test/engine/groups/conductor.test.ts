/** When groups compute together, when they do not wait for each other, and who hears of what fails. */
import { expect, test } from "vitest";
import { type ConductedGroup, Conductor, ranksHere } from "../../../src/engine/groups/conductor.ts";
import type { SubmittedStep } from "../../../src/engine/step/step_runner.ts";
import { GroupError } from "../../../src/errors.ts";
import type { Batch } from "../../../src/layers/batch.ts";

const BATCH: Batch = { sequences: [], sources: new Uint32Array(0), logitRows: new Uint32Array(0) };
const STEP: SubmittedStep = {
  tokens: Promise.resolve(new Uint32Array(0)),
  drafts: Promise.resolve([]),
};

/** Ranks that take so long for a step; what they did, step by step: "s" submitted, "i" idle. */
function conducted(count: number, { milliseconds = 0, maxWait = 5 } = {}) {
  const steps: string[] = [];
  const told: string[] = [];
  const counted: boolean[] = [];
  const failures = new Map<number, Error>();
  const does = async (number: number, what: string) => {
    if (number === 0) steps.push("");
    steps[steps.length - 1] += what;
    if (milliseconds > 0) await new Promise((resolve) => setTimeout(resolve, milliseconds));
    const failure = what === "s" ? failures.get(number) : undefined;
    if (failure !== undefined) throw failure;
    return STEP;
  };
  const groups = Array.from(
    { length: count },
    (_, number): ConductedGroup => ({
      submit: (_batch, _rows, { onExperts }) => {
        counted.push(onExperts !== undefined);
        return does(number, "s");
      },
      idle: async () => void (await does(number, "i")),
      moveExperts: async (layer) => void told.push(`${number} moves ${layer}`),
    }),
  );
  const abort = (reason: string) => void told.push(reason);
  const renew = () => void told.push("renewed");
  const conductor = new Conductor({ ranks: ranksHere({ groups, abort, renew }), maxWait });
  const submit = (group: number, options = {}) => conductor.submit(group, BATCH, [], options);
  return { conductor, submit, steps, told, counted, failures };
}

test("a step has the groups that are ready, and the others are idle in it", async () => {
  const { submit, steps } = conducted(3);
  await Promise.all([submit(0), submit(2)]);
  await submit(1);
  expect(steps[0]).toBe("sis");
  expect(steps.at(-1)).toBe("isi");
});

test("a group that was in the last step is waited for, one that stays away only once", async () => {
  const { submit, steps } = conducted(2, { milliseconds: 20, maxWait: 500 });
  await Promise.all([submit(0), submit(1)]);
  const late = new Promise((resolve) => setTimeout(resolve, 3)).then(() => submit(1));
  await Promise.all([submit(0), late]);
  expect(steps).toEqual(["ss", "ss"]);
  const begun = performance.now();
  await submit(0);
  await submit(0);
  await submit(0);
  expect(steps.slice(2)).toEqual(["si", "si", "si"]);
  // Three steps, and half of one for the group that has not come.
  expect(performance.now() - begun).toBeLessThan(3 * 20 + 500);
});

test("all that were in a step that fails are told why, and groups then take turns", async () => {
  const { submit, steps, told, failures } = conducted(2);
  failures.set(0, new Error("its rows"));
  const outcomes = await Promise.allSettled([submit(0), submit(1)]);
  expect(outcomes[0]).toMatchObject({ status: "rejected", reason: { message: "its rows" } });
  expect(told).toEqual(["its step failed: its rows", "renewed"]);
  failures.clear();
  const rounds = steps.length;
  await Promise.all([submit(0), submit(1)]);
  await Promise.all([submit(0), submit(1)]);
  expect(steps.slice(rounds)).toEqual(["is", "si", "is", "si"]);
  // Until 64 steps have succeeded.
  for (let i = 0; i < 30; i++) await Promise.all([submit(0), submit(1)]);
  expect(steps.at(-1)).toBe("si");
  await Promise.all([submit(0), submit(1)]);
  expect(steps.at(-1)).toBe("ss");
});

test("who was only left alone hears what the other failed with", async () => {
  const { submit, failures } = conducted(2);
  failures.set(0, new GroupError("rank 1 has left"));
  failures.set(1, new Error("the cause"));
  const outcomes = await Promise.allSettled([submit(0), submit(1)]);
  const reasons = outcomes.map((one) => (one as PromiseRejectedResult).reason.message);
  expect(reasons).toEqual(["the cause", "the cause"]);
});

test("experts are counted once in a step, and move between steps on the ranks of all groups", async () => {
  const { conductor, submit, counted, told } = conducted(2, { milliseconds: 5 });
  const onExperts = () => {};
  const both = Promise.all([submit(0, { onExperts }), submit(1, { onExperts })]);
  await both;
  expect(counted.filter((one) => one)).toHaveLength(1);
  await conductor.moveExperts(3, [0, 1]);
  expect(told).toEqual(["0 moves 3", "1 moves 3"]);
});
