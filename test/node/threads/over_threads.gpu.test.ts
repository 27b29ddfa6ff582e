/** Engines whose ranks are threads answer, bit for bit, what one rank does. */
import { afterAll, beforeAll, expect, test } from "vitest";
import { Engine } from "../../../src/engine/engine.ts";
import { EMBEDDED_MODEL } from "../../support/checkpoints/embedded_model.ts";
import { folderSource } from "../../support/checkpoints/folder_source.ts";
import { device, fullTest } from "../../support/devices/gpu.ts";
import { answersOf, type EngineTask } from "../../support/mpi/engine_answers.ts";
import { Programs } from "../../support/mpi/processes.ts";
import { engineOnThreads } from "../../support/threads/run_threads.ts";

let programs: Programs;
beforeAll(async () => {
  programs = await Programs.build();
});
afterAll(() => programs.remove());

const tokens = (seed: number, length: number) =>
  Array.from({ length }, (_, i) => 3 + ((seed * 97 + i * i * 31) % 500));
const LENGTH = 12;
const plain = { maxNewTokens: LENGTH, ignoreEos: true };
const SCHEMA = JSON.stringify({
  type: "object",
  properties: { name: { type: "string", maxLength: 12 } },
  required: ["name"],
});
const requests: EngineTask["rounds"][number] = [
  { tokens: tokens(1, 90), sampling: { ...plain, temperature: 0 }, logprobs: { topCount: 2 } },
  {
    tokens: [...tokens(1, 80), ...tokens(2, 13)],
    sampling: { ...plain, temperature: 0.9, topP: 0.95, topK: 40, seed: 5 },
    logprobs: { promptStart: 70, topCount: 1 },
  },
  {
    tokens: tokens(4, 9),
    sampling: { maxNewTokens: 2 * LENGTH, temperature: 0.7, seed: 7, jsonSchema: SCHEMA },
    logprobs: { topCount: 1 },
  },
];
const BASE = {
  ...{ maxTotalTokens: 512, contextLength: 256, maxRowsPerStep: 64, pageSize: 4 },
  ...{ chunkedPrefillSize: 32, maxRunningRequests: 4 },
} as const;
const DRAFTS = {
  speculation: { algorithm: "EAGLE", numSteps: 3, eagleTopk: 1, numDraftTokens: 4 },
} as const;

interface Variant {
  readonly name: string;
  readonly size: number;
  readonly options?: EngineTask["options"];
  readonly losses?: EngineTask["losses"];
  readonly groups?: number;
}

const VARIANTS: readonly Variant[] = [
  {
    name: "2 ranks, with drafts, of which each loses its device",
    size: 2,
    options: DRAFTS,
    losses: [
      { rank: 1, order: 9 },
      { rank: 0, order: 16 },
    ],
  },
  { name: "2 ranks, two batches overlap", size: 2, options: { twoBatchOverlap: true } },
  { name: "4 ranks in 2 attention groups", size: 4, groups: 2 },
];

test.each(fullTest ? VARIANTS : VARIANTS.slice(0, 1))(
  "$name",
  async ({ size, options = {}, losses, groups }) => {
    const model = EMBEDDED_MODEL;
    const rounds = [requests, requests];
    const { twoBatchOverlap: _, ...shared } = options;
    const given = { ...BASE, ...shared, device, triesInvariance: false };
    const alone = await answersOf(await Engine.load(folderSource(model), given), { rounds });
    const task = { model, options: { ...BASE, ...options }, rounds, losses, groups };
    const { answers, figures } = await engineOnThreads(programs, { size, task });
    expect(answers).toEqual(alone.answers);
    if (losses !== undefined) expect(figures.recoveries).toBe(losses.length);
    if (options.twoBatchOverlap) expect(figures.overlappedSteps).toBeGreaterThan(0);
  },
);
