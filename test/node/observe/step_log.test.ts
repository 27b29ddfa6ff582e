import { expect, test, vi } from "vitest";
import type { EngineStatus } from "../../../src/generation.ts";
import { Logger } from "../../../src/node/observe/logger.ts";
import { StepLog } from "../../../src/node/observe/step_log.ts";
import { ScriptedEngine } from "../../support/engines/scripted_engine.ts";

const STATUS: EngineStatus = {
  ...new ScriptedEngine().status(),
  runningRequests: 3,
  queuedRequests: 2,
  totalTokens: 1000,
  usedTokens: 125,
};
const speculation = { verifySteps: 0, proposedDrafts: 0, acceptedDrafts: 0 };
const PROMPTS = {
  prompts: 2,
  promptTokens: 70,
  cachedTokens: 30,
  decodedTokens: 0,
  sampledTokens: 2,
  speculation,
};
const DECODE = {
  prompts: 0,
  promptTokens: 0,
  cachedTokens: 0,
  decodedTokens: 3,
  sampledTokens: 3,
  speculation: { ...speculation, verifySteps: 3 },
};

function stepLog(interval: number) {
  const lines: string[] = [];
  const output = { write: (text: string) => lines.push(text.replace(/^\[.*?\] /, "").trimEnd()) };
  return { steps: new StepLog(new Logger({ stderr: output }), interval), lines };
}

test("StepLog has a line for each step with prompts", () => {
  const { steps, lines } = stepLog(40);
  steps.step(PROMPTS, STATUS);
  expect(lines).toEqual([
    "Prefill batch. #new-seq: 2, #new-token: 70, #cached-token: 30, token usage: 0.13, #running-req: 3, #queue-req: 2",
  ]);
});

test("StepLog has a line for every so many steps that decode", () => {
  const { steps, lines } = stepLog(3);
  for (let i = 0; i < 7; i++) steps.step(DECODE, STATUS);
  expect(lines).toHaveLength(2);
  expect(lines[0]).toMatch(
    /^Decode batch\. #running-req: 3, #token: 125, token usage: 0\.13, gen throughput \(token\/s\): [\d.]+, #queue-req: 2$/,
  );
});

test("StepLog tells how many tokens a request gets from a step, where the engine speculates", () => {
  const { steps, lines } = stepLog(2);
  const status = { ...STATUS, speculation };
  for (const acceptedDrafts of [2, 1, 0, 0]) {
    const figures = { verifySteps: 2, proposedDrafts: 4, acceptedDrafts };
    steps.step({ ...DECODE, speculation: figures }, status);
  }
  expect(lines.map((line) => /accept len: ([\d.]+), gen/.exec(line)?.[1])).toEqual(["1.75", "1"]);
});

test("StepLog does not count the time without work", () => {
  vi.useFakeTimers({ toFake: ["performance"] });
  try {
    const { steps, lines } = stepLog(4);
    const step = (status = STATUS) => {
      vi.advanceTimersByTime(100);
      steps.step(DECODE, status);
    };
    const idle = { ...STATUS, runningRequests: 0, queuedRequests: 0 };
    vi.advanceTimersByTime(60_000);
    step();
    step();
    step(idle);
    vi.advanceTimersByTime(60_000);
    for (let i = 0; i < 5; i++) step();
    // Three tokens in each tenth of a second.
    expect(lines).toEqual([expect.stringContaining("gen throughput (token/s): 30,")]);
  } finally {
    vi.useRealTimers();
  }
});

test("StepLog tells when requests had to make room", () => {
  const { steps, lines } = stepLog(40);
  steps.step(DECODE, { ...STATUS, retractions: 2 });
  steps.step(DECODE, { ...STATUS, retractions: 2 });
  expect(lines).toEqual(["KV cache pool is full. Retract requests. #retracted_reqs: 2"]);
});
