import { expect, test } from "vitest";
import type { StepReport } from "../../../src/engine/step/step_report.ts";
import type { EngineStatus } from "../../../src/generation.ts";
import { tellReport } from "../../../src/node/ranks/rank_talk.ts";
import type { StartReport } from "../../../src/node/serve/start_report.ts";

/** A report that counts what it is told of, and the reports of groups that it has made. */
function countingReport() {
  const steps: number[] = [];
  const whole = {
    step: () => steps.push(-1),
    ofReplica: (replica: number) => {
      let told = 0;
      return { step: () => steps.push(100 * replica + ++told) };
    },
  } as unknown as StartReport;
  return { whole, steps };
}

test("each attention group has one report, which counts on from step to step", () => {
  const { whole, steps } = countingReport();
  const values = [{} as StepReport, {} as EngineStatus];
  for (const replica of [1, 2, 1, undefined, 1]) {
    tellReport(whole, { type: "report", method: "step", values, replica });
  }
  expect(steps).toEqual([101, 201, 102, -1, 103]);
});
