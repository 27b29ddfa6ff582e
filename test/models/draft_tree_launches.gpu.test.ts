/** How many launches trees of drafts take, and that steps of one size are recorded once. */
import { expect, test, vi } from "vitest";
import { PLAIN_TUNING, type Tuning } from "../../src/gpu/tuning.ts";
import type { Batch } from "../../src/layers/batch.ts";
import { folderSource } from "../support/checkpoints/folder_source.ts";
import { device } from "../support/devices/gpu.ts";
import { unsentDevice } from "../support/devices/unsent_device.ts";
import { EMBEDDED_MODEL } from "../support/engines/engine.ts";
import {
  GREEDY,
  ModelSession,
  type SessionSequence,
  type TreeRows,
} from "../support/engines/model_session.ts";

const MODEL = folderSource(EMBEDDED_MODEL);
const TREE = { numSteps: 3, eagleTopk: 2, numDraftTokens: 6 };
const OPTIONS = { speculation: { algorithm: "EAGLE" as const, ...TREE }, maxRunningRequests: 8 };
const PARENTS = [-1, 0, 0, 1, 2, 3];
/** Of the embedded model, and of its module. */
const LAYERS = 5 + 1;
const GROUPS = ["drafts", "entries of accepted drafts", "draft layer", "draft", "draft chain"];

/** Rows of sequences that each verify a tree, which the host knows or which the step before made. */
function verifying(sequences: number, isContinued: boolean): Batch {
  const queryLength = PARENTS.length;
  const sources = new Uint32Array(sequences * queryLength).fill(6);
  return {
    sequences: Array.from({ length: sequences }, (_, i) => ({
      phase: "verify" as const,
      queryStart: i * queryLength,
      queryLength,
      position: 3,
      pageTable: Array.from({ length: 64 }, () => 0),
      ...(isContinued
        ? { continues: { from: i, slack: 0, depth: TREE.numSteps } }
        : { tree: { parents: PARENTS } }),
    })),
    sources,
    nextSources: sources,
    logitRows: Uint32Array.from(sources, (_, i) => i),
  };
}

test("trees take as many launches for any number of sequences, and as many for each draft", async () => {
  const launches = async (tuning: Tuning) => {
    const unsent = unsentDevice(device);
    const session = await ModelSession.open(MODEL, {
      ...{ ...OPTIONS, device: unsent.device, tuning },
      onProgress: ({ phase }) => {
        if (phase !== "adapter") unsent.stop();
      },
    });
    const count = async (sequences: number, steps: number, isContinued: boolean) => {
      const batch = verifying(sequences, isContinued);
      const sampling = [...batch.sources].map(() => ({ sampling: GREEDY, position: 4 }));
      const drafted = batch.sequences.map(({ queryStart, queryLength }, sequence) => {
        return { sequence, firstLogitRow: queryStart, logitRows: queryLength };
      });
      const request = { steps, sequences: drafted };
      const counts = await session.loaded.runner.countLaunches(batch, sampling, request);
      return GROUPS.map((group) => counts.get(group) ?? 0);
    };
    const table: number[][] = [];
    for (const sequences of [1, 7]) {
      for (const steps of [1, 2, 3]) table.push(await count(sequences, steps, false));
      table.push(await count(sequences, 3, true));
    }
    session.close();
    return table;
  };
  /** Of one, two and three drafts of a path, alone and beside others; the last go on from a step. */
  const table = (layer: number, head: number) => {
    const rows = [1, 2, 3, 3].map((drafts, i) => {
      return [Number(i === 3), LAYERS, layer, head + 1, (drafts - 1) * (layer + head - 1)];
    });
    return [...rows, ...rows];
  };
  // Accepted paths, norm, logits, likeliest tokens, beams, norm of the rows that they follow; then
  // the choice of nodes. A chain accepts no paths.
  const folded = { ...PLAIN_TUNING, foldsNorms: true };
  expect(await launches(folded)).toEqual(table(3 + 10, 6));
  expect(await launches(PLAIN_TUNING)).toEqual(table(5 + 10, 6));
});

test("steps that verify as many trees are recorded once, and allocate nothing", async () => {
  const session = await ModelSession.open(MODEL, OPTIONS);
  const sequences: SessionSequence[] = [];
  for (const first of [70, 515, 309]) {
    const sequence = session.sequence([0, first, 104, 300]);
    await session.prefill(sequence);
    sequences.push(sequence);
  }
  const { recorder } = session.loaded.runner;
  const step = async (parents: readonly number[]) => {
    const before = recorder.launches;
    const keep = vi.spyOn(recorder, "keep");
    const made = (["createBindGroup", "createBuffer"] as const).map((name) =>
      vi.spyOn(recorder.device, name),
    );
    const tokens = parents.map((_, i) => 7 + i);
    const trees = sequences.map((sequence): TreeRows => {
      return { sequence, phase: "verify", parents, tokens };
    });
    const { drafts } = await session.draft(trees, { steps: 3, ahead: 16 });
    const calls = [keep, ...made].map(({ mock }) => mock.calls.length);
    for (const spy of [keep, ...made]) spy.mockRestore();
    return { launches: recorder.launches - before, calls, drafts };
  };
  const first = await step(PARENTS);
  expect(first.calls[0]).toBeGreaterThan(0);
  // Another shape of as many nodes is the same step.
  for (const parents of [PARENTS, [-1, 0, 1, 2, 0, 4]]) {
    const { launches, calls, drafts } = await step(parents);
    expect({ launches, calls }).toEqual({ launches: first.launches, calls: [0, 0, 0] });
    if (parents === PARENTS) expect(drafts).toEqual(first.drafts);
  }
  session.close();
});
