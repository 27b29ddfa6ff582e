/**
 * What a step costs on one rank and on several over MPI, of one model on one device: ranks that share
 * the processor compute no faster, so this shows what they cost each other. In turns, the least of each.
 *
 * `WISP_BENCH_ROUNDS` says how often each is started (3).
 */
import { readFileSync } from "node:fs";
import { join } from "node:path";
import { afterAll, beforeAll, expect, test } from "vitest";
import { EMBEDDED_MODEL } from "../../test/support/checkpoints/embedded_model.ts";
import type { EngineAnswers } from "../../test/support/mpi/engine_answers.ts";
import { lackOfMpi, Programs, tellLack } from "../../test/support/mpi/processes.ts";
import { engineOverMpi, MPI_WAYS } from "../../test/support/mpi/ways.ts";
import { table } from "../support/table.ts";

const ROUNDS = Number(process.env.WISP_BENCH_ROUNDS ?? 3);
/** Tokens of an answer: the first comes with the prompt. */
const TOKENS = 65;

const lack = lackOfMpi();
tellLack(lack);
let programs: Programs;
beforeAll(async () => {
  if (lack === undefined) programs = await Programs.build();
});
afterAll(() => programs?.remove());

const request = {
  tokens: Array.from({ length: 12 }, (_, i) => 3 + 31 * i),
  sampling: { temperature: 0, maxNewTokens: TOKENS, ignoreEos: true },
  logprobs: { topCount: 1 },
};
const task = {
  model: EMBEDDED_MODEL,
  options: { maxTotalTokens: 512, contextLength: 256, prefixCache: false },
  rounds: [[request], [request]],
};
const LAYOUTS = [
  { size: 1, way: MPI_WAYS[0]! },
  { size: 2, way: MPI_WAYS[0]! },
  { size: 2, way: MPI_WAYS[1]! },
  { size: 4, way: MPI_WAYS[0]! },
  { size: 4, way: MPI_WAYS[1]! },
];
/** Of all steps of both rounds. */
const STEPS = 2 * TOKENS;
const { num_hidden_layers: LAYERS } = JSON.parse(
  readFileSync(join(EMBEDDED_MODEL, "config.json"), "utf8"),
);

test.skipIf(lack !== undefined)("steps of ranks over MPI", { timeout: 3_600_000 }, async () => {
  const runs: EngineAnswers[][] = LAYOUTS.map(() => []);
  for (let round = 0; round < ROUNDS; round++) {
    for (const [i, layout] of LAYOUTS.entries()) {
      runs[i]!.push(await engineOverMpi(programs, { ...layout, task }));
    }
  }
  const [alone] = runs;
  const rows = runs.map((own, i) => {
    for (const one of own) expect(one.answers).toEqual(alone![0]!.answers);
    const best = own.reduce((a, b) => (a.figures.milliseconds <= b.figures.milliseconds ? a : b));
    const { figures, exchanges } = best;
    const step = figures.milliseconds / STEPS;
    const least = Math.min(...alone!.map((one) => one.figures.milliseconds)) / STEPS;
    const { count, milliseconds } = exchanges!;
    const layer = (1000 * (step - least)) / LAYERS;
    const us = (1000 * milliseconds) / count;
    const { size, way } = LAYOUTS[i]!;
    return [
      ...[`${size}`, size === 1 ? "" : way.name, step.toFixed(2), (step / least).toFixed(2)],
      ...(size === 1
        ? ["", "", ""]
        : [(count / STEPS).toFixed(1), us.toFixed(0), layer.toFixed(0)]),
    ];
  });
  const head = [
    ...["ranks", "way", "ms a step", "beside one", "exchanges", "us each", "more us a layer"],
  ];
  console.log(table(head, rows));
});
