/** The engine that commands start has another device when its own is lost, and the log says so. */
import { afterEach, expect, test, vi } from "vitest";
import { Logger } from "../../../src/node/observe/logger.ts";
import { parseOptions } from "../../../src/node/options/option_parser.ts";
import { LAUNCH_OPTIONS } from "../../../src/node/options/options.ts";
import { startEngine } from "../../../src/node/serve/start_engine.ts";
import { lineReport } from "../../../src/node/serve/start_report.ts";
import { smallestCaseOnly } from "../../support/devices/gpu.ts";
import { until } from "../../support/until.ts";

afterEach(() => {
  vi.restoreAllMocks();
});

test.skipIf(smallestCaseOnly)("a started engine outlives its first device", async () => {
  const opening = vi.spyOn(GPUAdapter.prototype, "requestDevice");
  const lines: string[] = [];
  const stderr = { write: (line: string) => lines.push(line) };
  const report = lineReport(new Logger({ stderr, format: "json" }));
  const { values } = parseOptions(LAUNCH_OPTIONS, ["--max-total-tokens", "256"]);
  const engine = await startEngine(values, report);
  expect(opening).toHaveBeenCalledTimes(1);
  lines.length = 0;

  (await opening.mock.results[0]!.value).destroy();
  await until(async () => expect(await engine.status().recoveries).toBe(1));
  expect(opening).toHaveBeenCalledTimes(2);
  const sampling = { maxNewTokens: 3, ignoreEos: true };
  let completionTokens = 0;
  for await (const chunk of engine.generate({ tokens: [5], sampling })) {
    completionTokens = chunk.completionTokens;
  }
  expect(completionTokens).toBe(3);
  const events = lines.map((line) => JSON.parse(line).event as string | undefined);
  expect(events.slice(0, 2)).toEqual(["device_lost", "device_replaced"]);
  await engine.close();
});
