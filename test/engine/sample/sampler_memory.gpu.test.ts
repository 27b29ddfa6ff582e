/** Memory that rows ask for: it is there while they need it, and where it is not, they alone go without. */
import { afterEach, expect, test, vi } from "vitest";
import { IDLE_STEPS } from "../../../src/engine/sample/grown_memory.ts";
import type { SampledRow, TokenBiases } from "../../../src/engine/sample/sampled_row.ts";
import { Sampler } from "../../../src/engine/sample/sampler.ts";
import { DeviceMemory } from "../../../src/gpu/memory.ts";
import { Plan } from "../../../src/gpu/plan.ts";
import { Recorder } from "../../../src/gpu/recorder.ts";
import { EMPTY_STEP, type Step } from "../../../src/layers/batch.ts";
import { device, download, seeded } from "../../support/devices/gpu.ts";

const VOCABULARY = 301;
const STRIDE = 304;
const ROWS = 8;
/** Launches that may be bound: far fewer than there would be if none were given back. */
const LAUNCHES = 12;

afterEach(() => {
  vi.restoreAllMocks();
});

async function openSampler() {
  const recorder = new Recorder(device, { maxLaunches: LAUNCHES });
  const memory = new DeviceMemory(device.limits, device);
  const plan = new Plan<Step>(recorder);
  const logits = memory.allocate("activations", ROWS * STRIDE * 4, "logits");
  const sampled = memory.allocate("activations", ROWS * 4, "sampled");
  const sampler = new Sampler(memory, {
    ...{ maxRows: ROWS, maxPenalizedRows: 4, vocabularySize: VOCABULARY },
    ...{ logits, logitsStride: STRIDE, sampled },
  });
  sampler.compile(plan);
  await recorder.pipelines.ready();
  const random = seeded(3);
  const numbers = Float32Array.from({ length: ROWS * STRIDE }, () => random() * 12 - 6);
  return {
    memory,
    step: async (rows: readonly SampledRow[]) => {
      memory.write(logits, 0, numbers);
      sampler.prepare(await sampler.makeRoom({ sampled: rows, scored: [] }));
      await plan.run(EMPTY_STEP);
      await sampler.takeDelivery()?.();
      return [...new Uint32Array(await download(sampled.buffer, 0, rows.length * 4))];
    },
    /** Steps that need nothing, until what is not needed is gone. */
    rest: () => {
      for (let i = 0; i < IDLE_STEPS + 8; i++) sampler.prepare({ sampled: [], scored: [] });
    },
    close: () => {
      sampler.destroy();
      memory.destroy();
      recorder.destroy();
    },
  };
}

const sampling = { temperature: 0, topP: 1, topK: Number.POSITIVE_INFINITY, seed: 0 };

/** Lifts the last token of so many. */
const biases = (count: number): TokenBiases => ({
  tokens: Uint32Array.from({ length: count }, (_, i) => i),
  values: Float32Array.from({ length: count }, (_, i) => (i === count - 1 ? 100 : 0)),
});

/** A row of each kind that memory has to grow for, and rows beside them that ask for little. */
function rowsOfAllKinds() {
  const failed = new Map<number, unknown>();
  const told = new Map<number, string>();
  const deliver = (row: number) => (tokens: Uint32Array, logprobs: Float32Array) => {
    told.set(row, JSON.stringify([[...tokens], [...logprobs]]));
  };
  const wish = (row: number, top: number, ids: number) => ({
    ...{ temperature: 1, top, deliver: deliver(row) },
    tokenIds: Array.from({ length: ids }, (_, i) => i),
  });
  const history = { tokens: [1, 2, 3], promptLength: 3 };
  const kinds: Partial<SampledRow>[] = [
    {},
    { penalties: { repetition: 1.5, frequency: 0, presence: 0, history } },
    { biases: biases(300) },
    { logprobs: wish(3, 5, 100) },
    { logprobs: wish(4, 2, 0) },
    { biases: biases(250) },
    { processor: (logits) => logits.fill(200, 77, 78) },
  ];
  const rows = kinds.map((kind, i): SampledRow => {
    const fail = (error: unknown) => failed.set(i, error);
    return { sampling, position: 3, fail, ...kind };
  });
  return { rows, failed, told };
}

/** Which rows no memory is an error of: those of a kind that asked for most. */
const GREEDIEST = [1, 2, 3, 6];

interface Fault {
  /** Makes the k-th of its calls fail, and tells how many there were. */
  arm(k: number, error: Error): () => number;
}

function failingCall(name: "createBuffer" | "createBindGroup"): Fault {
  return {
    arm: (k, error) => {
      let calls = 0;
      const original = device[name].bind(device) as (descriptor: unknown) => unknown;
      vi.spyOn(device, name as "createBuffer").mockImplementation(((
        descriptor: GPUObjectDescriptorBase,
      ) => {
        // What the test itself makes to look at the ids has no name.
        if (descriptor.label) calls += 1;
        if (descriptor.label && calls === k) throw error;
        return original(descriptor);
      }) as never);
      return () => calls;
    },
  };
}

const FAULTS: Readonly<Record<string, Fault>> = {
  createBuffer: failingCall("createBuffer"),
  createBindGroup: failingCall("createBindGroup"),
  "memory of the device": {
    arm: (k, error) => {
      let calls = 0;
      const original = device.popErrorScope.bind(device);
      vi.spyOn(device, "popErrorScope").mockImplementation(async () => {
        calls += 1;
        const isNow = calls === k;
        const found = await original();
        return isNow ? (error as unknown as GPUError) : found;
      });
      return () => calls;
    },
  },
};

test.each(Object.entries(FAULTS))(
  "whichever %s fails, one row goes without, and the others are what they are",
  async (_, fault) => {
    const want = rowsOfAllKinds();
    const whole = await openSampler();
    const ids = await whole.step(want.rows);
    whole.close();
    expect([want.failed.size, want.told.size]).toEqual([0, 2]);
    const hit = new Set<number>();
    for (let k = 1; ; k++) {
      const sampler = await openSampler();
      const least = sampler.memory.bytes("activations");
      const calls = fault.arm(k, new RangeError("no memory"));
      const { rows, failed, told } = rowsOfAllKinds();
      const got = await sampler.step(rows);
      const reached = calls() >= k;
      vi.restoreAllMocks();
      expect(failed.size).toBe(reached ? 1 : 0);
      const [victim = -1] = failed.keys();
      if (reached) expect(GREEDIEST).toContain(victim);
      hit.add(victim);
      ids.forEach((id, r) => {
        if (r !== victim) expect([r, got[r], told.get(r)]).toEqual([r, id, want.told.get(r)]);
      });
      // The next step has all of it, and in the end nothing is left.
      const again = rowsOfAllKinds();
      expect(await sampler.step(again.rows)).toEqual(ids);
      expect([again.failed.size, again.told]).toEqual([0, want.told]);
      sampler.rest();
      expect(sampler.memory.bytes("activations")).toBe(least);
      sampler.close();
      if (!reached) break;
    }
    for (const row of GREEDIEST.slice(0, -1)) expect(hit).toContain(row);
  },
);

test("memory comes and goes with the rows that need it, however often", async () => {
  const sampler = await openSampler();
  const least = sampler.memory.bytes("activations");
  const { rows, failed } = rowsOfAllKinds();
  for (let round = 0; round < LAUNCHES; round++) {
    await sampler.step(rows);
    expect(sampler.memory.bytes("activations")).toBeGreaterThan(least);
    sampler.rest();
    expect(sampler.memory.bytes("activations")).toBe(least);
  }
  expect(failed.size).toBe(0);
  sampler.close();
});
