import { expect, test } from "vitest";
import { Logger, type LoggerOptions } from "../../../src/node/observe/logger.ts";
import { lineReport, quietReport } from "../../../src/node/serve/start_report.ts";

/** What a report writes, to a terminal or elsewhere. */
function output(isTTY: boolean) {
  const written: string[] = [];
  return { written, isTTY, write: (text: string) => written.push(text) };
}

/** A report to one stream. */
function reportTo(stderr: ReturnType<typeof output>, options: Partial<LoggerOptions> = {}) {
  return lineReport(new Logger({ stderr, ...options }), 40);
}

const half = { phase: "weights", done: 5, total: 10 } as const;
const all = { phase: "pipelines", done: 41, total: 41 } as const;

test("lineReport() draws progress as a bar on a terminal", () => {
  const terminal = output(true);
  const report = reportTo(terminal);
  report.progress(half);
  // Looks the same, and is not drawn again.
  report.progress({ phase: "weights", done: 501, total: 1000 });
  report.progress(all);
  expect(terminal.written).toEqual([
    `\rLoading weights   [${"#".repeat(15)}${"-".repeat(15)}] 50%`,
    `\rCompiling kernels [${"#".repeat(30)}] 100% (41 of 41)\n`,
  ]);
});

test("lineReport() writes a few lines of progress elsewhere, and warns", () => {
  const file = output(false);
  const report = reportTo(file);
  const adapter = { name: "llvmpipe", driver: "Mesa 25", backend: "Vulkan", isCpu: true } as const;
  report.adapter(adapter);
  for (let done = 0; done <= 100; done++) report.progress({ phase: "weights", done, total: 100 });
  report.warnings(["bits differ"]);
  expect(file.written.join("")).toBe(`Adapter: llvmpipe (Vulkan, driver Mesa 25)
Warning: this adapter runs on the CPU, a GPU would be many times faster
Loading weights: 25%
Loading weights: 50%
Loading weights: 75%
Loading weights: 100%
Warning: bits differ
`);
});

test("lineReport() names the numeric class, or that of each phase", () => {
  const file = output(false);
  const report = reportTo(file);
  report.classes({ prefill: "f16", decode: "f16" });
  report.classes({ prefill: "mma128", decode: "fma128" });
  expect(file.written).toEqual([
    "Numeric class: f16\n",
    "Numeric class: mma128 for prompts, fma128 for tokens\n",
  ]);
});

test("lineReport() writes JSON, also on a terminal, when the log is JSON", () => {
  const terminal = output(true);
  const report = reportTo(terminal, { format: "json" });
  report.model("m");
  report.progress(all);
  report.warnings(["bits differ"]);
  expect(terminal.written.map((line) => JSON.parse(line))).toEqual([
    { time: expect.any(String), level: "info", message: "Model: m" },
    { time: expect.any(String), level: "info", message: "Compiling kernels: 100% (41 of 41)" },
    { time: expect.any(String), level: "warning", message: "Warning: bits differ" },
  ]);
});

test("lineReport() says and draws nothing but warnings at the level warning", () => {
  const terminal = output(true);
  const report = reportTo(terminal, { level: "warning" });
  report.model("m");
  report.progress(all);
  report.warnings(["bits differ"]);
  expect(terminal.written).toEqual(["Warning: bits differ\n"]);
  expect(report.step).toBeUndefined();
});

test("quietReport() leaves a pipe alone", () => {
  const pipe = output(false);
  const report = quietReport(pipe);
  report.model("m");
  report.progress(all);
  expect(pipe.written).toEqual([]);
});

test("lineReport() has a line for each turn of a device that is lost", () => {
  const file = output(false);
  const report = reportTo(file, { format: "json" });
  report.recovery({ kind: "started", reason: "driver reset" });
  report.recovery({ kind: "searching", suspects: 3 });
  report.recovery({ kind: "found", requestId: "r\n", losses: 4 });
  report.recovery({ kind: "repeating", reason: "no memory" });
  report.recovery({ kind: "retrying", reason: "no adapter", seconds: 2 });
  report.recovery({ kind: "progress", phase: "weights", done: 1, total: 2 });
  report.recovery({ kind: "finished", seconds: 2.5 });
  report.recovery({ kind: "failed", reason: "given up" });
  const time = expect.any(String);
  expect(file.written.map((line) => JSON.parse(line))).toEqual([
    { time, level: "warning", event: "device_lost", reason: "driver reset" },
    { time, level: "warning", event: "device_suspects", suspects: 3 },
    { time, level: "error", event: "request_loses_device", rid: "r\n", losses: 4 },
    { time, level: "error", event: "step_repeated", reason: "no memory" },
    { time, level: "warning", event: "device_retry", reason: "no adapter", seconds: 2 },
    { time, level: "info", event: "device_replaced", seconds: 2.5 },
    { time, level: "error", event: "device_given_up", reason: "given up" },
  ]);
});
