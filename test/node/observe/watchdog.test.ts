import { expect, test, vi } from "vitest";
import type { EngineStatus } from "../../../src/generation.ts";
import { Logger } from "../../../src/node/observe/logger.ts";
import { startWatchdog } from "../../../src/node/observe/watchdog.ts";
import { ReplicatedEngine } from "../../../src/parallel/replicas/replicated_engine.ts";
import { ScriptedEngine } from "../../support/engines/scripted_engine.ts";
import { until } from "../../support/until.ts";

test("startWatchdog() tells once that an engine is stuck, that it goes on, and that it has failed", async () => {
  const lines: string[] = [];
  const output = { write: (text: string) => lines.push(text.replace(/^\[.*?\] /, "")) };
  const engine = new ScriptedEngine();
  let stalledFor = 0;
  let healthy = true;
  let looks = 0;
  vi.spyOn(engine, "status").mockImplementation(() => {
    looks += 1;
    return { ...ScriptedEngine.prototype.status.call(engine), healthy, stalledFor };
  });
  const afterLooks = (count: number) => {
    const wanted = looks + count;
    return until(() => expect(looks).toBeGreaterThanOrEqual(wanted));
  };
  const log = new Logger({ stderr: output });
  const stop = startWatchdog(engine, log, { timeout: 5, period: 1 });
  try {
    stalledFor = 4.9;
    await afterLooks(3);
    expect(lines).toEqual([]);
    stalledFor = 5;
    await afterLooks(3);
    stalledFor = 0.1;
    await afterLooks(3);
    expect(lines).toEqual([
      "No step has finished for 5 seconds: the server is not healthy until one does\n",
      "Steps finish again\n",
    ]);
    healthy = false;
    await afterLooks(3);
    expect(lines.slice(2)).toEqual(["The engine cannot go on: every request is refused\n"]);
  } finally {
    stop();
  }
});

test("startWatchdog() tells which of several replicas is stuck or has failed", async () => {
  const lines: string[] = [];
  const stderr = { write: (text: string) => lines.push(text.replace(/^\[.*?\] /, "")) };
  const engines = [new ScriptedEngine(), new ScriptedEngine()];
  const plain = engines[0]!.status();
  const states: Partial<EngineStatus>[] = [{}, {}];
  for (const [i, engine] of engines.entries()) engine.status = () => ({ ...plain, ...states[i] });
  const stop = startWatchdog(new ReplicatedEngine(engines), new Logger({ stderr }), {
    timeout: 5,
    period: 1,
  });
  const told = (line: string) => until(() => expect(lines.at(-1)).toBe(`${line}\n`));
  try {
    states[1] = { stalledFor: 6 };
    await told(
      "DP1 No step has finished for 5 seconds: requests go to other replicas until one does",
    );
    states[1] = {};
    await told("DP1 Steps finish again");
    states[1] = { healthy: false, recovering: true };
    states[0] = { healthy: false };
    await told("DP0 The replica cannot go on: requests go to others");
    // The other one is being started again.
    expect(lines).toEqual([...lines.slice(0, 2), lines.at(-2), lines.at(-1)]);
    states[1] = { healthy: false };
    await told("DP1 The replica cannot go on: requests go to others");
    expect(lines.join("")).toContain("\nThe engine cannot go on: every request is refused\n");
  } finally {
    stop();
  }
});
