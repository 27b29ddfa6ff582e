import { expect, test, vi } from "vitest";
import { EXIT, LaunchError } from "../../../src/node/mpi/launch_error.ts";
import { Logger } from "../../../src/node/observe/logger.ts";
import { RestartingEngine } from "../../../src/node/ranks/restarting_engine.ts";
import { Restarts } from "../../../src/node/ranks/restarts.ts";
import { ScriptedEngine } from "../../support/engines/scripted_engine.ts";
import { until } from "../../support/until.ts";

const lost = (text = "rank 1") => new LaunchError(`Cannot go on without ${text}`, EXIT.lost);
const never = new AbortController().signal;

function supervise(isOn = true, waits: readonly number[] = [0, 0.01]) {
  let written = "";
  const stderr = { write: (text: string) => (written += text) };
  const log = new Logger({ stderr, level: "info", format: "json" });
  return { restarts: new Restarts(isOn, log, waits), log: () => written };
}

test("groups that are lost are started again, as often in a row as there are waits", async () => {
  const { restarts, log } = supervise();
  await restarts.next(lost(), never);
  const begun = performance.now();
  await restarts.next(new LaunchError("Cannot start without node 1", EXIT.timeout), never);
  expect(performance.now() - begun).toBeGreaterThan(5);
  const last = lost("rank 3");
  await expect(restarts.next(last, never)).rejects.toBe(last);
  const events = log().trim().split("\n");
  expect(events.map((line) => JSON.parse(line))).toEqual([
    expect.objectContaining({ event: "group_ended", seconds: 0, start: 1 }),
    expect.objectContaining({ reason: "Cannot start without node 1", seconds: 0.01, start: 2 }),
  ]);
});

test("a group that has run for a minute counts anew", async () => {
  const { restarts } = supervise(true, [0]);
  await restarts.next(lost(), never);
  const now = vi.spyOn(performance, "now").mockReturnValue(1000);
  restarts.runs();
  now.mockReturnValue(62_000);
  await restarts.next(lost(), never);
  restarts.runs();
  now.mockReturnValue(100_000);
  await expect(restarts.next(lost(), never)).rejects.toThrow("rank 1");
  now.mockRestore();
});

test.each([
  ["where that is not asked for", false, lost()],
  ["whose nodes have different options", true, new LaunchError("Cannot start", EXIT.failed)],
  ["for what is none of its own", true, new Error("Cannot write")],
])("no group is started %s", async (_, isOn, reason) => {
  await expect(supervise(isOn).restarts.next(reason, never)).rejects.toBe(reason);
});

test("a wait ends with its signal, and leads to no start once starts are over", async () => {
  const { restarts } = supervise(true, [60, 0.01]);
  const stopping = new AbortController();
  const waiting = restarts.next(lost(), stopping.signal);
  stopping.abort(new Error("stopped"));
  await expect(waiting).rejects.toThrow("stopped");
  const second = restarts.next(lost("rank 2"), never);
  restarts.end();
  await expect(second).rejects.toThrow("rank 2");
});

test("an engine whose group is lost says whether its ranks will be there again", async () => {
  const afterLoss = async (isOn: boolean) => {
    let lose = (_: Error) => {};
    const group = new Promise<never>((_, reject) => {
      lose = reject;
    });
    const start = async () => Object.assign(new ScriptedEngine(), { lost: group });
    const { restarts } = supervise(isOn, [60]);
    const log = new Logger({ stderr: { write: () => true } });
    const engine = await RestartingEngine.start({ log, restarts, start });
    engine.lost.catch(() => {});
    lose(lost());
    await until(() => expect(engine.status().healthy).toBe(false));
    return engine;
  };
  const gone = await afterLoss(false);
  await until(() => expect(gone.status().recovering).toBe(false));
  await expect(gone.tokenize({ prompt: "a" })).rejects.toThrow("its ranks are lost (Cannot go on");
  const waiting = await afterLoss(true);
  expect(waiting.status().recovering).toBe(true);
  await expect(waiting.tokenize({ prompt: "a" })).rejects.toThrow("are being started again");
  await waiting.close();
});
