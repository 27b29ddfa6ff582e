/** The endpoints of expert records: what they write, and what they refuse. */
import { mkdtempSync, readdirSync, readFileSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterEach, beforeEach, expect, test } from "vitest";
import { ExpertRecorder } from "../../../src/engine/experts/expert_recorder.ts";
import type { ExpertRecord, ExpertRecording } from "../../../src/expert_record.ts";
import { ExpertRecordFiles } from "../../../src/node/observe/expert_record_files.ts";
import { parseOptions } from "../../../src/node/options/option_parser.ts";
import { EXPERT_OPTIONS, expertOptions } from "../../../src/node/ranks/expert_options.ts";
import { ExpertLayout } from "../../../src/parallel/experts/expert_layout.ts";
import { placeExperts } from "../../../src/parallel/experts/expert_location.ts";
import { createApp } from "../../../src/server/app.ts";
import { ScriptedEngine } from "../../support/engines/scripted_engine.ts";
import { errorMessage } from "../../support/server/http_client.ts";

const SIZES = { layers: 2, experts: 4, slots: 6, ranks: 2, nodes: 1, algorithm: "auto" } as const;

/** Its steps choose what it is told; experts of the second layer only. */
class CountedEngine extends ScriptedEngine {
  readonly #recorder = new ExpertRecorder({
    ...{ layers: SIZES.layers, experts: SIZES.experts, passes: 10 },
    layout: () => ExpertLayout.plain({ size: 2 }, SIZES.experts),
  });

  step(counts: readonly number[]): void {
    this.#recorder.nextStep({ sequences: [] })?.({ layers: [1], counts: Uint32Array.from(counts) });
  }

  async recordExperts(recording: ExpertRecording): Promise<ExpertRecord> {
    return this.#recorder.record(recording);
  }
}

let folder: string;
beforeEach(() => {
  folder = mkdtempSync(join(tmpdir(), "wisp-experts-"));
});
afterEach(() => rmSync(folder, { recursive: true }));

function open() {
  const engine = new CountedEngine();
  const files = new ExpertRecordFiles(engine, join(folder, "records"));
  const app = createApp(engine, { expertRecords: files });
  const ask = async (verb: string) => {
    const answer = await app.request(`/${verb}_expert_distribution_record`, { method: "POST" });
    return [answer.status, await answer.text()] as const;
  };
  const read = () =>
    readdirSync(join(folder, "records"))
      .sort()
      .map((name) => JSON.parse(readFileSync(join(folder, "records", name), "utf8")));
  return { engine, ask, read };
}

test("what steps choose between start and dump is in the file, which a start can place by", async () => {
  const { engine, ask, read } = open();
  engine.step([9, 9, 9, 9]);
  expect(await ask("start")).toEqual([200, "Start recording the expert distribution.\n"]);
  engine.step([6, 0, 0, 0]);
  engine.step([1, 2, 3, 0]);
  const [status, text] = await ask("dump");
  expect([status, text]).toEqual([
    200,
    expect.stringMatching(/^Dump expert distribution record\. It is in expert_dist.*_1\.json\n$/),
  ]);
  expect(read()).toEqual([
    {
      rank: 0,
      passes: 2,
      // Of two ranks one had all of the first step, and of the second three of six.
      average_utilization_rate_over_window: (0.5 + 1) / 2,
      logical_count: [
        [0, 0, 0, 0],
        [7, 2, 3, 0],
      ],
    },
  ]);
  engine.step([0, 0, 0, 5]);
  expect(await ask("stop")).toEqual([200, "Stop recording the expert distribution.\n"]);
  engine.step([0, 0, 0, 5]);
  await ask("dump");
  expect(read()[1]).toMatchObject({
    passes: 1,
    logical_count: [
      [0, 0, 0, 0],
      [0, 0, 0, 5],
    ],
  });
  const [name] = readdirSync(join(folder, "records")).sort();
  const args = ["--init-expert-location", join(folder, "records", name!)];
  const { location } = await expertOptions(parseOptions(EXPERT_OPTIONS, args).values);
  const placed = placeExperts(location!, SIZES)[1]!;
  // The expert with most has two copies more.
  expect(placed.filter((expert) => expert === 0)).toHaveLength(3);
});

test("records of steps are files in the names that their readers know", async () => {
  const placement = [
    [0, 1],
    [1, 0],
  ];
  const told = { isRecording: true, passes: 1, logicalCount: [], balancedness: 1, placement };
  const rows = {
    forwardMode: "mixed",
    ...{ extendLengths: [1], perRow: 2 },
    ...{ tokens: Int32Array.of(7, -1), positions: Uint32Array.of(4, 0) },
    slots: [Int32Array.of(-1, -1, -1, -1), Int32Array.of(1, 0, 0, 1)],
  } as const;
  const slotCounts = [Uint32Array.of(0, 0), Uint32Array.of(3, 1)];
  const records: readonly ExpertRecord[] = [
    { ...told, mode: "per_pass", records: [{ forwardPass: 5, slotCounts }] },
    { ...told, mode: "per_token", records: [{ forwardPass: 5, rows }] },
  ];
  const read = [];
  for (const [i, record] of records.entries()) {
    const engine = Object.assign(new ScriptedEngine(), { recordExperts: async () => record });
    const name = await new ExpertRecordFiles(engine, join(folder, String(i))).dump();
    read.push(JSON.parse(readFileSync(join(folder, String(i), name), "utf8")));
  }
  const common = { forward_pass_id: 5, rank: 0, gatherer_key: "primary" };
  const last = { last_physical_to_logical_map: placement };
  const counts = [
    [0, 0],
    [3, 1],
  ];
  const fields = {
    ...{ input_ids: [7, -1], positions: [4, 0], extend_seq_lens: [1], forward_mode: "mixed" },
    topk_ids_of_layer: [
      [
        [-1, -1],
        [-1, -1],
      ],
      [
        [1, 0],
        [0, 1],
      ],
    ],
    misc_objects: [],
  };
  expect(read).toEqual([
    { records: [{ ...common, global_physical_count: counts }], ...last },
    { records: [{ ...common, ...fields }], ...last },
  ]);
});

test.each(["start", "stop", "dump"])("%s is refused where nothing records", async (verb) => {
  const app = createApp(new ScriptedEngine(), {});
  const answer = await app.request(`/${verb}_expert_distribution_record`);
  expect(answer.status).toBe(400);
  expect(await errorMessage(answer)).toContain("--expert-distribution-recorder-mode stat does");
});

test.each([
  ["nowhere.json", "it cannot be read: ENOENT"],
  ["counts.pt", "files of PyTorch are not read"],
  ["[1]", "it is no JSON object"],
  ["trivially", 'it is neither "trivial" nor JSON'],
  ["[".repeat(200), "it nests deeper than 100 levels"],
])("--init-expert-location %s is refused", async (value, problem) => {
  const { values } = parseOptions(EXPERT_OPTIONS, ["--init-expert-location", value]);
  await expect(expertOptions(values)).rejects.toThrow(problem);
});
