/** Starts of groups that come to nothing, as a server has them again and again. */
import { getEventListeners } from "node:events";
import { expect, test, vi } from "vitest";
import { Logger } from "../../../src/node/observe/logger.ts";
import { parseOptions } from "../../../src/node/options/option_parser.ts";
import { ENGINE_OPTIONS } from "../../../src/node/options/options.ts";
import { startRanks } from "../../../src/node/ranks/group_engine.ts";
import { quietReport } from "../../../src/node/serve/start_report.ts";

test("a start that fails listens no longer to the signal that would give it up", async () => {
  const signals: AbortSignal[] = [];
  const { addEventListener } = AbortSignal.prototype;
  vi.spyOn(AbortSignal.prototype, "addEventListener").mockImplementation(function (
    this: AbortSignal,
    ...given: Parameters<typeof addEventListener>
  ) {
    signals.push(this);
    addEventListener.apply(this, given);
  });
  const log = new Logger({ stderr: { write: () => true }, level: "info", format: "json" });
  const address = { host: "127.0.0.1", port: 0 };
  const place = { nodes: 2, node: 0, ranksPerNode: 1, address, timeout: 50 };
  const { values } = parseOptions(ENGINE_OPTIONS, []);
  const start = startRanks({ place, restart: false, log });
  await expect(start(values, quietReport({ write: () => true }))).rejects.toThrow("Cannot ");
  vi.restoreAllMocks();
  expect(signals.length).toBeGreaterThan(0);
  expect(getEventListeners(signals[0]!, "abort")).toEqual([]);
});
