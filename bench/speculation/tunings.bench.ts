/**
 * What drafts bring on the embedded model by both tunings that matter, that of CPU drivers and that of
 * GPUs, side by side on the adapter that is there.
 *
 * @module
 */
import "../support/driver_threads.ts";
import { beforeAll, expect, test } from "vitest";
import { withoutStaged } from "../../src/gpu/row_forms.ts";
import { ADAPTER_TUNINGS, DEFAULT_TUNING } from "../../src/gpu/tuning.ts";
import type { SpeculationOptions } from "../../src/speculation/speculation_options.ts";
import { adapter } from "../../test/support/devices/gpu.ts";
import { machine } from "../support/machine.ts";
import { median } from "../support/noise.ts";
import { table } from "../support/table.ts";
import { BATCHES, CHATS, compare, openEngines, type Setting } from "./compared_engines.ts";

/** A processor takes the forms of GPUs fourteen times as long: its answers are short, and few. */
const SHORT = { rounds: 2, maxNewTokens: 16 };
const TUNINGS = [
  {
    of: "CPU drivers",
    tuning: ADAPTER_TUNINGS.find(({ name }) => name === "llvmpipe")!.tuning,
    given: {},
  },
  // A model as small as this one has no staged forms.
  { of: "GPUs", tuning: withoutStaged(DEFAULT_TUNING), given: adapter.isCpu ? SHORT : {} },
];
const KINDS: readonly { readonly name: string; readonly speculation?: SpeculationOptions }[] = [
  { name: "no drafts" },
  {
    name: "3 by MTP",
    speculation: { algorithm: "EAGLE", numSteps: 3, eagleTopk: 1, numDraftTokens: 4 },
  },
  { name: "as many as pay", speculation: { algorithm: "EAGLE" } },
];

beforeAll(() => console.log(machine()));

test("drafts of the checkpoint's module, by the tunings of CPU drivers and of GPUs", async () => {
  const rows: string[][] = [];
  for (const { of, tuning, given } of TUNINGS) {
    const settings = KINDS.map(({ name, ...kind }): Setting => {
      return { name: `${of}: ${name}`, tuning, ...kind };
    });
    const engines = await openEngines(settings);
    for (const [batch, ratios] of await compare(settings, engines, CHATS, given)) {
      rows.push([of, `${batch}`, ...ratios.map((own) => `${median(own).toFixed(2)}x`)]);
    }
    for (const engine of engines) await engine.close();
  }
  console.log(table(["tuning of", "batch", ...KINDS.slice(1).map(({ name }) => name)], rows));
  expect(rows.length).toBe(TUNINGS.length * BATCHES.length);
}, 1_200_000);
