import { expect, test, vi } from "vitest";
import { Logger } from "../../../src/node/observe/logger.ts";
import { startWatchdog } from "../../../src/node/observe/watchdog.ts";
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
