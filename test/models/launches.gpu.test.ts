import { describe, expect, test } from "vitest";
import type { WeightSource } from "../../src/checkpoint/source.ts";
import { ADAPTER_TUNINGS, PLAIN_TUNING, type Tuning } from "../../src/gpu/tuning.ts";
import { folderSource } from "../support/checkpoints/folder_source.ts";
import { randomDeepseek } from "../support/checkpoints/random_deepseek.ts";
import { randomGqa } from "../support/checkpoints/random_gqa.ts";
import { device } from "../support/devices/gpu.ts";
import { unsentDevice } from "../support/devices/unsent_device.ts";
import { EMBEDDED_MODEL } from "../support/engines/engine.ts";
import { ModelSession } from "../support/engines/model_session.ts";

const GREEDY = { temperature: 0, topP: 1, topK: Number.POSITIVE_INFINITY, seed: 0 };

const FOLDED: Tuning = { ...PLAIN_TUNING, foldsNorms: true };

/** Positions of rows with one split of keys and with several. */
const [NEAR, FAR] = [3, 600];

/** More of one key head than any workgroup takes. */
const MANY_HEADS = { num_attention_heads: 16, num_key_value_heads: 1 };

/** Rows are rounded too. */
const ROUNDED = { kind: "FP8", per: "block" } as const;

/** Heads whose values are whole runs of weight rows in every tuning. */
const LATENT = { v_head_dim: 32, num_hidden_layers: 3 };

type Launches = ReadonlyMap<string, number>;

/**
 * Launches of each part of the model in steps in which so many sequences decode, near and far. Once
 * the adapter is tested nothing is sent: drivers for the CPU compile a kernel when it first runs.
 */
async function launchesOf(
  source: WeightSource,
  counts: readonly number[],
  tuning = FOLDED,
): Promise<ReadonlyMap<number, readonly [Launches, Launches]>> {
  const unsent = unsentDevice(device);
  const session = await ModelSession.open(source, {
    device: unsent.device,
    tuning,
    maxRunningRequests: Math.max(...counts),
    onProgress: ({ phase }) => {
      if (phase !== "adapter") unsent.stop();
    },
  });
  try {
    const all = new Map<number, [Launches, Launches]>();
    for (const count of counts) {
      all.set(count, [
        await launchesAt(session, count, NEAR),
        await launchesAt(session, count, FAR),
      ]);
    }
    return all;
  } finally {
    session.close();
  }
}

function launchesAt({ loaded }: ModelSession, count: number, position: number): Promise<Launches> {
  return loaded.runner.countLaunches(
    {
      sequences: Array.from({ length: count }, (_, i) => ({
        ...{ phase: "decode" as const, queryStart: i, queryLength: 1, position },
        // As long as it must be: the test does not look at what is computed.
        pageTable: Array.from({ length: FAR }, () => 0),
      })),
      sources: Uint32Array.from({ length: count }, () => 6),
      logitRows: Uint32Array.from({ length: count }, (_, i) => i),
    },
    Array.from({ length: count }, () => ({ sampling: GREEDY, position: position + 1 })),
  );
}

const ofLayers = (counts: Launches) =>
  [...counts].filter(([group]) => group.startsWith("layer")).map(([, launches]) => launches);

test("an output head that finds the best token leaves nothing to sample", async () => {
  const launches = async (tuning: Tuning) => {
    const [near] = (await launchesOf(randomGqa(), [2], tuning)).get(2)!;
    return [near.get("output head"), near.get("sampling")];
  };
  expect(await launches(PLAIN_TUNING)).toEqual([2, 1]);
  expect(await launches({ ...PLAIN_TUNING, findsBest: true })).toEqual([3, 0]);
});

test("rows of a dense layer with grouped-query attention take five launches, six of several splits", async () => {
  /** Of all layers, near and far. */
  const launches = async (count: number, tuning?: Tuning, config = {}) => {
    const steps = await launchesOf(randomGqa({ config }), [count], tuning);
    return steps.get(count)!.map((counts) => {
      expect(ofLayers(counts).length).toBeGreaterThan(1);
      return [...new Set(ofLayers(counts))];
    });
  };
  for (const count of [1, 2, 7]) expect(await launches(count)).toEqual([[5], [6]]);
  // Several workgroups have queries of one key head.
  const { attention } = ADAPTER_TUNINGS.find(({ name }) => name === "Intel")!.tuning;
  expect(attention!.rowHeads).toBeLessThan(MANY_HEADS.num_attention_heads);
  expect(await launches(2, { ...FOLDED, attention: attention! }, MANY_HEADS)).toEqual([[5], [6]]);
  // The norm in front of the first layer is not its own.
  expect(await launches(1, PLAIN_TUNING)).toEqual([
    [7, 8],
    [8, 9],
  ]);
});

test("rows that are rounded too take six, however many splits", async () => {
  const source = randomGqa({
    storage: ROUNDED,
    config: { hidden_size: 136, intermediate_size: 150 },
  });
  for (const count of [1, 2]) {
    const steps = await launchesOf(source, [count]);
    expect(steps.get(count)!.map((counts) => [...new Set(ofLayers(counts))])).toEqual([[6], [6]]);
  }
});

test("rows that see keys of others in their step wait until those are written", async () => {
  const session = await ModelSession.open(randomGqa(), { tuning: FOLDED });
  const { pageTable } = session.sequence([3]);
  /** Of all layers, in a step with one sequence of so many generated rows. */
  const launches = async (count: number) => {
    const counts = await session.loaded.runner.countLaunches(
      {
        sequences: [{ phase: "decode", queryStart: 0, queryLength: count, position: 0, pageTable }],
        sources: Uint32Array.from({ length: count }, (_, i) => 3 + i),
        logitRows: Uint32Array.of(count - 1),
      },
      [{ sampling: GREEDY, position: count }],
    );
    return [...new Set(ofLayers(counts))];
  };
  expect([await launches(1), await launches(2), await launches(1)]).toEqual([[5], [6], [5]]);
  await session.close();
});

test("rows of a layer with latent attention take eight launches, ten with experts", async () => {
  const model = folderSource(EMBEDDED_MODEL);
  /** Of the dense layer and of all others, near and far. */
  const launches = async (count: number, tuning: Tuning) => {
    const steps = await launchesOf(model, [count], tuning);
    return steps.get(count)!.map((counts) => {
      const [dense, ...sparse] = ofLayers(counts);
      return [dense, ...new Set(sparse)];
    });
  };
  const folded = [
    [8, 10],
    [8, 10],
  ];
  // Of seven rows experts serve several each: pairs are sorted.
  for (const count of [1, 2, 7]) expect(await launches(count, FOLDED)).toEqual(folded);
  expect(await launches(1, PLAIN_TUNING)).toEqual([
    [9, 12],
    [9, 12],
  ]);
});

/** Of GPUs with many cores and with few, of AMD and Intel: the other tunings have the forms of `FOLDED`, and more of them. */
const GPU_TUNINGS = new Set(
  ADAPTER_TUNINGS.filter(({ tuning }) => tuning.repacks === true).map(({ tuning }) => tuning),
);
/** Rows that forms of every size take, staged ones too. */
const COUNTS = [1, 4, 7, 12, 16, 32];

describe.each([
  ["latent attention and experts", randomDeepseek({ dtype: "FP8", config: LATENT }), 10],
  ["grouped queries", randomGqa({ storage: ROUNDED, config: MANY_HEADS }), 6],
])("on every GPU a layer has few launches: %s", (_, source, most) => {
  test.each([0, 1, 2, 3])("in tuning %i of four", async (index) => {
    expect(GPU_TUNINGS.size).toBe(4);
    const tuning = [...GPU_TUNINGS][index]!;
    for (const [count, steps] of await launchesOf(source, COUNTS, tuning)) {
      const launches = steps.flatMap(ofLayers);
      expect(Math.max(...launches), `${count} rows`).toBeLessThanOrEqual(most);
    }
  });
});

test("launches over the tiles of experts are as high as the GPU counts them", async () => {
  const session = await ModelSession.open(folderSource(EMBEDDED_MODEL), { tuning: FOLDED });
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
  expect(ofRows.get("moe/expert_gate_up")).toEqual(new Set([true]));
  // A workgroup of it has all tiles.
  expect(ofRows.get("moe/tile_combine")).toEqual(new Set([false]));
  for (const kernel of ["moe/expert_gate_up", "moe/expert_combine"]) {
    expect(counted.get(kernel)).toEqual(new Set([false]));
  }
  await session.close();
});
