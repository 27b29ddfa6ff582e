/** SVC_MOONCAKE_TRANS_THREAD. */
import { expect, test } from "vitest";
import {
  idleTransferWorkers,
  transferWorkers,
} from "../../../src/node/options/engine_variables.ts";

const env = { SVC_MOONCAKE_TRANS_THREAD: "16" };

test("is of prefill servers, and others say so", () => {
  expect(transferWorkers(env)).toBe(16);
  expect(idleTransferWorkers(env, "prefill")).toEqual([]);
  for (const mode of ["decode", "null"]) {
    expect(idleTransferWorkers(env, mode)).toEqual([
      "SVC_MOONCAKE_TRANS_THREAD changes nothing here: prefill servers say how many prompts have pages on their way",
    ]);
    expect(idleTransferWorkers({}, mode)).toEqual([]);
  }
});

test.each(["0", "-1", "1.5", "1025", "many"])("%s is no number of prompts", (value) => {
  for (const mode of ["prefill", "decode", "null"]) {
    expect(() => idleTransferWorkers({ SVC_MOONCAKE_TRANS_THREAD: value }, mode)).toThrow(
      `Cannot use SVC_MOONCAKE_TRANS_THREAD ${value}: it must be a whole number from 1 to 1024`,
    );
  }
});
