import { expect, test } from "vitest";
import type { WeightSource } from "../../src/checkpoint/source.ts";
import { PLAIN_TUNING, type Tuning } from "../../src/gpu/tuning.ts";
import { EMBEDDED_MODEL } from "../support/engine.ts";
import { folderSource } from "../support/folder_source.ts";
import { ModelSession } from "../support/model_session.ts";
import { randomGqa } from "../support/random_gqa.ts";

const GREEDY = { temperature: 0, topP: 1, topK: Number.POSITIVE_INFINITY, seed: 0 };

const FOLDED: Tuning = { ...PLAIN_TUNING, foldsNorms: true };

/** Launches of each part of the model in a step in which `count` sequences decode. */
async function launchesOf(
  source: WeightSource,
  count: number,
  tuning = FOLDED,
): Promise<ReadonlyMap<string, number>> {
  const session = await ModelSession.open(source, { tuning });
  const sequences = Array.from({ length: count }, (_, i) => session.sequence([3 + i, 4, 5]));
  for (const sequence of sequences) {
    await session.prefill(sequence, 3);
    sequence.tokens.push(6);
    await session.decode([sequence]);
  }
  const { runner } = session.loaded;
  const counts = await runner.countLaunches(
    {
      sequences: sequences.map((sequence, i) => ({
        ...{ phase: "decode" as const, queryStart: i, queryLength: 1 },
        ...{ position: sequence.computed - 1, pageTable: sequence.pageTable },
      })),
      sources: Uint32Array.from({ length: count }, () => 6),
      logitRows: Uint32Array.from({ length: count }, (_, i) => i),
    },
    sequences.map((sequence) => ({ sampling: GREEDY, position: sequence.computed })),
  );
  await session.close();
  return counts;
}

async function launchesOfLayers(...step: Parameters<typeof launchesOf>): Promise<number[]> {
  const counts = await launchesOf(...step);
  return [...counts].filter(([group]) => group.startsWith("layer")).map(([, launches]) => launches);
}

test("an output head that finds the best token leaves nothing to sample", async () => {
  const plain = await launchesOf(randomGqa(), 2, PLAIN_TUNING);
  expect([plain.get("output head"), plain.get("sampling")]).toEqual([2, 1]);
  const own = await launchesOf(randomGqa(), 2, { ...PLAIN_TUNING, findsBest: true });
  expect([own.get("output head"), own.get("sampling")]).toEqual([3, 0]);
});

test("a row of a dense layer with grouped-query attention takes six launches", async () => {
  const layers = await launchesOfLayers(randomGqa(), 1);
  expect(layers.length).toBeGreaterThan(1);
  expect(new Set(layers)).toEqual(new Set([6]));
  expect(new Set(await launchesOfLayers(randomGqa(), 2))).toEqual(new Set([8]));
  expect(new Set(await launchesOfLayers(randomGqa(), 1, PLAIN_TUNING))).toEqual(new Set([8]));
});

test("a row of a layer with latent attention takes eight launches, ten with experts", async () => {
  const model = folderSource(EMBEDDED_MODEL);
  const [dense, ...sparse] = await launchesOfLayers(model, 1);
  expect(dense).toBe(8);
  expect(new Set(sparse)).toEqual(new Set([10]));
  const [denseOfTwo, ...sparseOfTwo] = await launchesOfLayers(model, 2);
  expect(denseOfTwo).toBe(12);
  expect(new Set(sparseOfTwo)).toEqual(new Set([14]));
  const [plainDense, ...plainSparse] = await launchesOfLayers(model, 1, PLAIN_TUNING);
  expect(plainDense).toBe(10);
  expect(new Set(plainSparse)).toEqual(new Set([12]));
});

test("launches over the tiles of experts are as high as the GPU counts them", async () => {
  const session = await ModelSession.open(folderSource(EMBEDDED_MODEL));
  const { recorder } = session.loaded.runner;
  const launch = recorder.launch.bind(recorder);
  const counted = new Map<string, Set<boolean>>();
  recorder.launch = (recorded) => {
    const { name } = recorded.kernel;
    const isCounted = recorded.indirect !== undefined;
    counted.set(name, (counted.get(name) ?? new Set()).add(isCounted));
    launch(recorded);
  };
  const sequence = session.sequence(Array.from({ length: 40 }, (_, i) => 3 + i));
  await session.prefill(sequence, 40);
  const ofRows = new Map(counted);
  counted.clear();
  sequence.tokens.push(6);
  await session.decode([sequence]);
  for (const kernel of ["moe/expert_gate_up", "moe/expert_down"]) {
    expect(ofRows.get(kernel)).toEqual(new Set([true]));
    expect(counted.get(kernel)).toEqual(new Set([false]));
  }
  await session.close();
});
