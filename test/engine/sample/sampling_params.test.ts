import { expect, test } from "vitest";
import { resolveSampling } from "../../../src/engine/sample/sampling_params.ts";
import type { SamplingParams } from "../../../src/sampling_params.ts";

test.each<[SamplingParams["stop"], string[]]>([
  ["", []],
  [["", "x", ""], ["x"]],
  ["x", ["x"]],
  [undefined, []],
])("stop: %j ends at %j: an empty text is no stop", (stop, stops) => {
  const params: SamplingParams = stop === undefined ? {} : { stop };
  expect(resolveSampling(params, { vocabularySize: 8, seed: 1 }).stop).toEqual(stops);
});

test("stop has to be texts", () => {
  const params = { stop: [1] } as unknown as SamplingParams;
  expect(() => resolveSampling(params, { vocabularySize: 8, seed: 1 })).toThrow(
    "stop must be a string or strings, got 1",
  );
});
