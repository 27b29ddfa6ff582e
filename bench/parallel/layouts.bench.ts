/**
 * What steps of a model with experts take, by how two ranks share its layers: experts' rows to all ranks
 * (`--tp-size 2`, where each has whole experts, as with `--ep-size 2`), to one that adds them up
 * (`--moe-a2a-backend deepep`), in two attention groups (`--dp-size 2 --enable-dp-attention`), which share
 * the output head or each have one (`--enable-dp-lm-head`), and with two-batch overlap. The embedded model,
 * of whose five layers four have experts; ranks of one process share the adapter, so this says what layouts
 * cost beside each other.
 *
 * `WISP_BENCH_ROUNDS` says how often each is run (3); in turns, the least of each.
 */
import "../support/driver_threads.ts";
import { afterAll, beforeAll, expect, test } from "vitest";
import type { EngineOptions } from "../../src/engine/engine_options.ts";
import { loadGroupEngines } from "../../src/engine/groups/attention_groups.ts";
import type { GenerationEngine } from "../../src/generation.ts";
import { openDevice } from "../../src/node/device/device.ts";
import { ReplicatedEngine } from "../../src/parallel/replicas/replicated_engine.ts";
import { EMBEDDED_MODEL } from "../../test/support/checkpoints/embedded_model.ts";
import { folderSource } from "../../test/support/checkpoints/folder_source.ts";
import { complete, openEngine } from "../../test/support/engines/engine.ts";
import { machine } from "../support/machine.ts";
import { table } from "../support/table.ts";

const ROUNDS = Number(process.env.WISP_BENCH_ROUNDS ?? 3);
const REQUESTS = [2, 8, 32] as const;
/** Of an answer; prompts are short. */
const TOKENS = 32;
const PROMPT = 8;
const LAYERS = 5;

const BASE = { maxRunningRequests: 32, prefixCache: false, contextLength: 64 } as const;
const TWO = { tensorParallelSize: 2 } as const;
const ADDED = { experts: { allToAll: "normal" } } as const;
const OVERLAP = { twoBatchOverlap: true } as const;
const LAYOUTS: readonly (readonly [name: string, options: Partial<EngineOptions>])[] = [
  ["one rank", {}],
  ["tp 2, ep 2", TWO],
  ["tp 2, ep 2, overlap", { ...TWO, ...OVERLAP }],
  ["ep 2, deepep", { ...TWO, ...ADDED }],
  ["ep 2, deepep, overlap", { ...TWO, ...ADDED, ...OVERLAP }],
  ["ep 2, dp 2", { ...TWO, attentionGroups: 2 }],
  ["ep 2, dp 2, overlap", { ...TWO, ...OVERLAP, attentionGroups: 2 }],
  ["ep 2, dp 2, a head each", { ...TWO, attentionGroups: 2, headByGroup: true }],
];

const engines = new Map<string, GenerationEngine>();
beforeAll(async () => {
  for (const [name, options] of LAYOUTS) {
    const { device } = await openDevice();
    const given = { ...BASE, ...options, device, maxTotalTokens: 2048 };
    const { attentionGroups } = options;
    if (attentionGroups === undefined) engines.set(name, await openEngine(given));
    else {
      const open = () => folderSource(EMBEDDED_MODEL);
      const all = { ...given, attentionGroups, triesInvariance: false };
      engines.set(name, new ReplicatedEngine(await loadGroupEngines(open, all)));
    }
  }
}, 240_000);
afterAll(async () => {
  for (const engine of engines.values()) await engine.close();
});

/** What all requests were answered, and milliseconds of a step. */
async function run(engine: GenerationEngine, requests: number) {
  const started = performance.now();
  const answers = await Promise.all(
    Array.from({ length: requests }, async (_, request) => {
      const tokens = Array.from({ length: PROMPT }, (_, i) => 3 + ((request * 97 + 31 * i) % 500));
      const sampling = { temperature: 0, maxNewTokens: TOKENS, ignoreEos: true };
      return (await complete(engine, { tokens, sampling })).tokens;
    }),
  );
  return { answers, step: (performance.now() - started) / TOKENS };
}

test("steps by layout", { timeout: 600_000 }, async () => {
  const rows: string[][] = [];
  for (const requests of REQUESTS) {
    const least = new Map<string, number>();
    let expected: unknown;
    for (let round = 0; round < ROUNDS; round++) {
      for (const [name, engine] of engines) {
        const { answers, step } = await run(engine, requests);
        expected ??= answers;
        expect(answers).toEqual(expected);
        least.set(name, Math.min(least.get(name) ?? step, step));
      }
    }
    const alone = least.get("one rank")!;
    for (const [name, step] of least) {
      const layer = ((step - alone) / LAYERS).toFixed(2);
      rows.push([`${requests}`, name, step.toFixed(2), (step / alone).toFixed(2), layer]);
    }
  }
  const header = ["requests", "layout", "ms a step", "beside one", "more ms a layer"];
  console.log(`${machine()}\n${table(header, rows)}`);
});
