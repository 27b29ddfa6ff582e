/** Several replicas that one process starts: what each is told, and what is left where one does not start. */
import { expect, test } from "vitest";
import type { SharedLayout } from "../../../src/cache/page_form.ts";
import { Logger } from "../../../src/node/observe/logger.ts";
import type { EngineLaunchOptions } from "../../../src/node/options/options.ts";
import { startReplicas } from "../../../src/node/replicas/start_replicas.ts";
import type { ReplicaPart, StartEngine } from "../../../src/node/serve/start_engine.ts";
import { lineReport, quietReport } from "../../../src/node/serve/start_report.ts";
import { ScriptedEngine } from "../../support/engines/scripted_engine.ts";
import { until } from "../../support/until.ts";

const THREE = { dpSize: 3, loadBalanceMethod: "shortest_queue" } as const;

/** @param failing The replica that does not start. */
function setUp(failing?: number) {
  const lines: string[] = [];
  const report = lineReport(new Logger({ stderr: { write: (line) => lines.push(line) } }));
  const parts: (ReplicaPart | undefined)[] = [];
  const seeds: (number | undefined)[] = [];
  const ended: string[] = [];
  const start: StartEngine = async ({ randomSeed }, own, part) => {
    const { replica } = part!;
    if (replica === failing) throw new Error("Cannot load it");
    parts.push(part);
    seeds.push(randomSeed);
    own.model("the model");
    own.family("plain");
    own.sizes(["Memory: some"]);
    return Object.assign(new ScriptedEngine(), {
      close: async () => void ended.push(`closed ${replica}`),
      freeDevice: () => ended.push(`freed ${replica}`),
    });
  };
  return { lines, report, parts, seeds, ended, start: startReplicas(start, THREE) };
}

const options = { randomSeed: 2 ** 32 - 2 } as EngineLaunchOptions;

test("each has a number and a seed of its own, and all share their services", async () => {
  const { lines, report, parts, seeds, ended, start } = setUp();
  const engine = await start(options, report);
  expect(parts.map((part) => [part!.replica, part!.replicas])).toEqual([
    [0, 3],
    [1, 3],
    [2, 3],
  ]);
  expect(new Set(parts.map((part) => part!.services)).size).toBe(1);
  expect(seeds).toEqual([2 ** 32 - 2, 2 ** 32 - 1, 0]);
  expect(lines).toEqual([
    "Model: the model\n",
    "Chat family: plain\n",
    "DP0 Memory: some\n",
    "DP1 Memory: some\n",
    "DP2 Memory: some\n",
    expect.stringMatching(/^Replicas: 3 answer different requests, .* chosen by shortest_queue\n$/),
  ]);
  expect(engine.model.dataParallelSize).toBe(3);
  await engine.close();
  engine.freeDevice!();
  expect(ended.slice(0, 3).toSorted()).toEqual(["closed 0", "closed 1", "closed 2"]);
  expect(ended.slice(3)).toEqual(["freed 0", "freed 1", "freed 2"]);
});

test("without a seed, each has one of chance", async () => {
  const { report, seeds, start } = setUp();
  await start({} as EngineLaunchOptions, report);
  expect(seeds).toEqual([undefined, undefined, undefined]);
});

test("the server goes on until the last replica is lost, and says why each is", async () => {
  const losses: ((error: Error) => void)[] = [];
  const lines: string[] = [];
  const report = lineReport(new Logger({ stderr: { write: (line) => lines.push(line) } }));
  const start: StartEngine = async () => {
    const lost = new Promise<never>((_, reject) => losses.push(reject));
    return Object.assign(new ScriptedEngine(), { lost });
  };
  const engine = await startReplicas(start, { ...THREE, dpSize: 2 })(options, report);
  let end: Error | undefined;
  engine.lost!.catch((error: Error) => {
    end = error;
  });
  losses[1]!(new Error("rank 5 is gone"));
  await until(() => expect(lines.at(-1)).toBe("DP1 Warning: rank 5 is gone\n"));
  expect(end).toBeUndefined();
  losses[0]!(new Error("rank 2 is gone"));
  await until(() => expect(end?.message).toBe("rank 5 is gone"));
  expect(lines.at(-1)).toBe("DP0 Warning: rank 2 is gone\n");
});

test("pages that differ from replica to replica are refused where they are moved, and nowhere else", async () => {
  const layouts: object[] = [];
  const start: StartEngine = async () => {
    const pageLayout = { pageSize: 2 ** layouts.length } as SharedLayout;
    layouts.push(pageLayout);
    return Object.assign(new ScriptedEngine(), { pageLayout });
  };
  const startIn = (disaggregationMode: "null" | "prefill" | "decode") =>
    startReplicas(start, THREE)({ ...options, disaggregationMode }, quiet);
  const quiet = quietReport({ write: () => {} });
  expect((await startIn("null")).pageLayout).toBeUndefined();
  for (const mode of ["prefill", "decode"] as const) {
    await expect(startIn(mode)).rejects.toThrow("pages of one replica are not as those of another");
  }
});

test("where one does not start, the others end and their devices are given back", async () => {
  const { ended, start } = setUp(2);
  await expect(start(options, quietReport({ write: () => {} }))).rejects.toThrow("Cannot load it");
  expect(ended).toEqual(["closed 0", "closed 1", "freed 0", "freed 1"]);
});
