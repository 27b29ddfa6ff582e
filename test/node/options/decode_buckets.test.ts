import { expect, test } from "vitest";
import { parseOptions } from "../../../src/node/options/option_parser.ts";
import { ENGINE_OPTIONS } from "../../../src/node/options/options.ts";
import { startEngine } from "../../../src/node/serve/start_engine.ts";

test.each([
  ["--cuda-graph-bs", "1", "2"],
  ["--cuda-graph-max-bs", "4"],
])("--disable-cuda-graph contradicts %s", async (...args) => {
  const { values } = parseOptions(ENGINE_OPTIONS, ["--disable-cuda-graph", ...args]);
  const problem = `Cannot use option ${args[0]} together with --disable-cuda-graph: no sizes are kept`;
  await expect(startEngine(values, undefined as never)).rejects.toThrow(problem);
});
