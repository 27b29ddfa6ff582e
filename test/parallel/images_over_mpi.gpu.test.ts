/**
 * Models that read images, over ranks that are processes: bit for bit what one rank answers, with drafts
 * of another model, less of weights and lost devices too.
 */
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { Engine } from "../../src/engine/engine.ts";
import { folderSource } from "../support/checkpoints/folder_source.ts";
import { device, fullTest, smallestCaseOnly } from "../support/devices/gpu.ts";
import {
  VISION_MODEL,
  VISION_MODELS,
  type VisionModel,
  visionFolder,
} from "../support/engines/vision_engine.ts";
import { visionCases, visionRequest } from "../support/images/vision_cases.ts";
import { answersOf, type EngineTask } from "../support/mpi/engine_answers.ts";
import { lackOfMpi, Programs, tellLack } from "../support/mpi/processes.ts";
import { engineOverMpi, MPI_WAYS } from "../support/mpi/ways.ts";

const lack = lackOfMpi();
tellLack(lack);
const isLeftOut = lack !== undefined || smallestCaseOnly || VISION_MODEL === undefined;

let programs: Programs;
beforeAll(async () => {
  if (!isLeftOut) programs = await Programs.build();
});
afterAll(() => programs?.remove());

interface Variant {
  readonly name: string;
  readonly options?: EngineTask["options"];
  /** The model drafts for itself, seeing the same pictures. */
  readonly drafts?: true;
  readonly losses?: EngineTask["losses"];
}

const STANDALONE = {
  speculation: { algorithm: "STANDALONE", numSteps: 3, eagleTopk: 1, numDraftTokens: 4 },
} as const;
const VARIANTS: readonly Variant[] = [
  {
    name: "drafts of another model, a device lost",
    ...{ options: STANDALONE, drafts: true, losses: [{ rank: 1, order: fullTest ? 9 : 4 }] },
  },
  { name: "plain" },
  { name: "drafts of what was said before", options: { speculation: { algorithm: "NGRAM" } } },
  { name: "weights in int4", options: { quantization: "int4" } },
  {
    name: "weights in FP8, drafts of another model",
    options: { quantization: "fp8" },
    drafts: true,
  },
];
/** Its positions have parts, which no step finds for drafts that it makes. */
const canBeDraftedFor = (model: VisionModel) => model !== "mini-qwen2.5-vl";

/** Pictures alone, twice the same one, and behind a text: two rounds, so that prefixes are found again. */
function roundsOf(model: VisionModel) {
  const short = ["two_images", "text_first"];
  const named = fullTest ? [...short, "photo", "same_image_twice"] : short;
  const round = named.map((name) => ({
    ...visionRequest(visionCases(model).find((one) => one.name === name)!),
    sampling: { temperature: 0, maxNewTokens: fullTest ? 16 : 6, ignoreEos: true },
  }));
  return fullTest ? [round, round] : [round];
}

async function onOneRank({ model, options, draftModel, rounds }: EngineTask) {
  const engine = await Engine.load(folderSource(model), {
    ...{ device, triesInvariance: false, ...options },
    ...(draftModel && { draftModel: folderSource(draftModel) }),
  });
  return answersOf(engine, { rounds });
}

function taskOf(model: VisionModel, { options, drafts, losses }: Variant): EngineTask {
  return {
    model: visionFolder(model),
    options: { maxTotalTokens: 2048, maxPrefillTokens: 48, cacheDtype: "f32", ...options },
    ...(drafts && { draftModel: visionFolder(model), options: { ...STANDALONE, ...options } }),
    ...(losses && { losses }),
    rounds: roundsOf(model),
  };
}

/** Ranks, and the way that they meet on. */
const LAYOUTS = [
  { size: 2, way: MPI_WAYS[0]! },
  { size: 4, way: MPI_WAYS[1]! },
].slice(0, fullTest ? 2 : 1);

const SHORT_MODELS = ["mini-smolvlm", "mini-qwen2.5-vl"] as const;

describe.skipIf(isLeftOut).each(fullTest ? VISION_MODELS : SHORT_MODELS)(
  "%s over MPI (needs ../shared/data)",
  (model) => {
    const possible = VARIANTS.filter(({ drafts }) => canBeDraftedFor(model) || !drafts);
    const variants = fullTest ? possible : possible.slice(0, 1);
    test.each(variants)("$name", async (variant) => {
      const task = taskOf(model, variant);
      const want = await onOneRank(task);
      expect(want.answers.map(({ tokens }) => tokens.length)).not.toContain(0);
      for (const layout of LAYOUTS) {
        const got = await engineOverMpi(programs, { task, ...layout });
        expect(got.answers, `${layout.size} ranks`).toEqual(want.answers);
        expect(got.figures.recoveries).toBe(variant.losses?.length ?? 0);
        if (variant.drafts) expect(got.figures.acceptedDrafts).toBeGreaterThan(0);
      }
    });
  },
);
