import { afterAll, beforeAll, describe, expect, test, vi } from "vitest";
import type { WeightSource } from "../../src/checkpoint/source.ts";
import { PLAIN_TUNING, type Tuning } from "../../src/gpu/tuning.ts";
import type { BatchSequence, Step } from "../../src/layers/batch.ts";
import type { AddsRows } from "../../src/layers/block_rows.ts";
import { type GqaLaunch, gqaLaunches } from "../../src/layers/launches/gqa_launches.ts";
import type { LayerLaunch } from "../../src/layers/launches/launch_list.ts";
import {
  type MlaLaunch,
  type MlaLaunchFacts,
  mlaLaunches,
} from "../../src/layers/launches/mla_launches.ts";
import { type MlpLaunch, mlpLaunches } from "../../src/layers/launches/mlp_launches.ts";
import {
  type MoeLaunch,
  type MoeLaunchFacts,
  moeLaunches,
} from "../../src/layers/launches/moe_launches.ts";
import {
  addsOutputs,
  type OutputLaunch,
  type OutputLaunchFacts,
  outputLaunches,
} from "../../src/layers/launches/output_launches.ts";
import { type NormLaunch, normLaunches } from "../../src/models/decoder_launches.ts";
import type { NumericClass } from "../../src/models/numeric_class.ts";
import { folderSource } from "../support/checkpoints/folder_source.ts";
import { randomGqa } from "../support/checkpoints/random_gqa.ts";
import { device } from "../support/devices/gpu.ts";
import { unsentDevice } from "../support/devices/unsent_device.ts";
import { EMBEDDED_MODEL } from "../support/engines/engine.ts";
import { ModelSession } from "../support/engines/model_session.ts";
import { namesIn } from "../support/launch_names.ts";

const FOLDED: Tuning = { ...PLAIN_TUNING, foldsNorms: true };
const GREEDY = { temperature: 0, topP: 1, topK: Number.POSITIVE_INFINITY, seed: 0 };
/** Position of rows with several splits of keys. */
const FAR = 600;

/** Kernels that a named launch records. */
type KernelsOf<Name extends string> = Readonly<Record<Name, (step: Step) => readonly string[]>>;

const one = (kernel: string) => () => [kernel];
const LINEAR = one("linear/linear");
const QUANTIZE = one("norm/quantize");
const CODES = one("norm/quantize_codes");
const splits =
  (kernel: string) =>
  ({ decodeSplits }: Step) => [kernel, ...(decodeSplits > 1 ? ["attention/merge_splits"] : [])];
const passes =
  (...kernels: readonly string[]) =>
  (step: Step) =>
    step.passes.flatMap(() => kernels);

const NORM: KernelsOf<NormLaunch> = { norm: one("norm/add_norm"), round: QUANTIZE };
const OUTPUT: KernelsOf<OutputLaunch> = { addOutputs: LINEAR, writeOutputs: LINEAR };
const MLP: KernelsOf<MlpLaunch> = { gateUp: one("linear/gate_up"), round: QUANTIZE };
/** The same where int8 weights meet rows as codes. */
const coded = <Name extends string>(kernels: KernelsOf<Name> & { round: unknown }) => ({
  ...kernels,
  round: CODES,
});
const GQA: KernelsOf<GqaLaunch> = {
  project: LINEAR,
  writeAndAttend: splits("attention/gqa_write_decode"),
  write: one("cache/gqa_write"),
  attend: splits("attention/gqa_decode"),
  attendTrees: splits("attention/gqa_decode"),
  attendPrompts: passes("attention/gqa_prefill"),
  round: QUANTIZE,
};
const MLA: KernelsOf<MlaLaunch> = {
  projectFirst: LINEAR,
  normProjectAndWrite: one("cache/mla_project"),
  normAndWrite: one("cache/mla_write"),
  roundQueryLatent: QUANTIZE,
  projectQuery: LINEAR,
  absorb: LINEAR,
  attend: one("attention/mla_decode"),
  attendTrees: one("attention/mla_decode"),
  mergeToValues: one("linear/merging_linear"),
  makeValues: LINEAR,
  attendPrompts: passes("cache/mla_gather", "linear/linear", "attention/mla_prefill"),
  round: QUANTIZE,
};
const MOE: KernelsOf<MoeLaunch> = {
  score: LINEAR,
  choose: one("moe/route"),
  chooseAndSort: one("moe/route_sort"),
  sort: one("moe/sort"),
  gateUp: one("moe/expert_gate_up"),
  round: QUANTIZE,
  combineByPair: one("moe/expert_combine"),
  combineByTile: one("moe/tile_combine"),
  down: one("moe/expert_down"),
  matrixExperts: () => [],
};

/** The kernels that a step records of a list. */
const kernelsIn =
  <Name extends string>(list: readonly LayerLaunch<Name>[], kernels: KernelsOf<Name>) =>
  (step: Step) =>
    namesIn(list, step).flatMap((name) => kernels[name](step));

const WRITES: OutputLaunchFacts = { adding: undefined, matrices: "none" };
const ADDS: OutputLaunchFacts = {
  adding: { addsAll: true, adds: () => true },
  matrices: "none",
};

const norm = (roundsApart: boolean, isAdded: AddsRows) =>
  kernelsIn(normLaunches({ roundsApart }, isAdded), NORM);
const output = (facts: OutputLaunchFacts) => kernelsIn(outputLaunches(facts), OUTPUT);
const adds =
  (facts: OutputLaunchFacts): AddsRows =>
  (step) =>
    addsOutputs(facts, step);

/** Of the second layer, which is like the one before it but for what is said. */
function gqaLayer(
  rounding: "none" | "inKernel" | "apart",
  { folds, codes = false }: { readonly folds: boolean; readonly codes?: boolean },
) {
  // Norms whose rows are rounded by launches of their own are never folded.
  const facts = folds && rounding !== "apart" ? ADDS : WRITES;
  const before = kernelsIn(
    normLaunches({ roundsApart: rounding === "apart" }, adds(facts)),
    codes ? coded(NORM) : NORM,
  );
  const attention = gqaLaunches({ writesAndAttends: folds, rounding, takesTrees: false });
  return [
    before,
    kernelsIn(attention, codes ? coded(GQA) : GQA),
    output(facts),
    before,
    kernelsIn(mlpLaunches({ rounding }), codes ? coded(MLP) : MLP),
    output(facts),
  ];
}

/** Of the embedded model: the second layer, with experts, behind a dense one. */
function mlaLayer({ folds }: { readonly folds: boolean }) {
  const facts = folds ? ADDS : WRITES;
  const attention: MlaLaunchFacts = {
    queryRounding: "inKernel",
    projectPays: () => true,
    mergesValues: true,
    takesPrompts: true,
    takesTrees: false,
    contextRounding: "prompts",
  };
  const experts: MoeLaunchFacts = {
    slots: 3,
    expertCount: 9,
    matrices: "none",
    rounding: "inKernel",
    mostSorted: 64,
    sizes: [{ tokens: 4, cost: 1 }],
    combining: {
      byPair: folds,
      byTile: folds,
      stages: false,
      sharesColumns: false,
      hasMatrices: false,
    },
    skips: false,
  };
  const before = norm(false, adds(facts));
  return [
    before,
    kernelsIn(mlaLaunches(attention), MLA),
    output(facts),
    before,
    kernelsIn(moeLaunches(experts), MOE),
  ];
}

const BLOCKS = { hidden_size: 136, intermediate_size: 150 };
const rounded = (kind: "FP8" | "INT8", per: "block" | "row") =>
  randomGqa({ storage: { kind, per }, config: BLOCKS });

describe.each<
  [
    string,
    WeightSource,
    Tuning,
    () => readonly ((step: Step) => readonly string[])[],
    numericClass?: NumericClass | "auto",
  ]
>([
  ["grouped queries", randomGqa(), PLAIN_TUNING, () => gqaLayer("none", { folds: false })],
  ["grouped queries, folded", randomGqa(), FOLDED, () => gqaLayer("none", { folds: true })],
  [
    "grouped queries, rounded by norms",
    rounded("FP8", "block"),
    FOLDED,
    () => gqaLayer("inKernel", { folds: true }),
  ],
  [
    "grouped queries, rounded apart",
    rounded("INT8", "row"),
    FOLDED,
    () => gqaLayer("apart", { folds: true }),
    "fma128",
  ],
  [
    "grouped queries, rounded to codes",
    rounded("INT8", "row"),
    FOLDED,
    () => gqaLayer("apart", { folds: true, codes: true }),
    "int8",
  ],
  [
    "latent attention and experts",
    folderSource(EMBEDDED_MODEL),
    PLAIN_TUNING,
    () => mlaLayer({ folds: false }),
  ],
  [
    "latent attention and experts, folded",
    folderSource(EMBEDDED_MODEL),
    FOLDED,
    () => mlaLayer({ folds: true }),
  ],
])(
  "a layer records the launches of its lists: %s",
  (_, source, tuning, layer, numericClass = "auto") => {
    let session: ModelSession;

    beforeAll(async () => {
      // Drivers for the CPU compile a kernel when it first runs: nothing is sent.
      const unsent = unsentDevice(device);
      session = await ModelSession.open(source, {
        device: unsent.device,
        tuning,
        numericClass,
        onProgress: ({ phase }) => {
          if (phase !== "adapter") unsent.stop();
        },
      });
    });

    afterAll(() => session.close());

    test.each([
      { rows: 1, position: 3, prompt: 0 },
      { rows: 1, position: FAR, prompt: 0 },
      { rows: 7, position: 3, prompt: 0 },
      { rows: 0, position: 0, prompt: 40 },
      { rows: 1, position: FAR, prompt: 40 },
    ])("$rows rows at $position, $prompt of a prompt", async ({ rows, position, prompt }) => {
      const { step, kernels } = await recorded(session, { rows, position, prompt });
      expect(kernels).toEqual(layer().flatMap((part) => part(step)));
    });
  },
);

/** The kernels of the second layer in order, and the step that they were recorded for. */
async function recorded(
  { loaded }: ModelSession,
  wanted: { readonly rows: number; readonly position: number; readonly prompt: number },
): Promise<{ readonly step: Step; readonly kernels: readonly string[] }> {
  const { rows, position, prompt } = wanted;
  const { recorder, plan } = loaded.runner;
  const kernels: string[] = [];
  const launch = vi.spyOn(recorder, "launch").mockImplementation((one) => {
    kernels.push(one.kernel.name);
    recorder.launches += 1;
  });
  let step: Step | undefined;
  const count = plan.countLaunches.bind(plan);
  const counting = vi.spyOn(plan, "countLaunches").mockImplementation((given) => {
    step = { ...given };
    return count(given);
  });
  const sequence = (part: Pick<BatchSequence, "phase" | "queryStart" | "queryLength">) => ({
    ...part,
    position: part.phase === "decode" ? position : 0,
    pageTable: Array.from({ length: FAR }, () => 0),
  });
  const sequences: BatchSequence[] = Array.from({ length: rows }, (_, queryStart) =>
    sequence({ phase: "decode", queryStart, queryLength: 1 }),
  );
  if (prompt > 0) {
    sequences.push(sequence({ phase: "prefill", queryStart: rows, queryLength: prompt }));
  }
  const counts = await loaded.runner.countLaunches(
    {
      sequences,
      sources: Uint32Array.from({ length: rows + prompt }, () => 6),
      logitRows: Uint32Array.of(0),
    },
    [{ sampling: GREEDY, position: 1 }],
  );
  launch.mockRestore();
  counting.mockRestore();
  const groups = [...counts.keys()];
  const before = groups.slice(0, groups.indexOf("layer 1"));
  const start = before.reduce((sum, group) => sum + counts.get(group)!, 0);
  return { step: step!, kernels: kernels.slice(start, start + counts.get("layer 1")!) };
}
