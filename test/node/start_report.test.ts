import { expect, test } from "vitest";
import { lineReport, quietReport } from "../../src/node/start_report.ts";

/** What a report writes, to a terminal or elsewhere. */
function output(isTTY: boolean) {
  const written: string[] = [];
  return { written, isTTY, write: (text: string) => written.push(text) };
}

const half = { phase: "weights", done: 5, total: 10 } as const;
const all = { phase: "pipelines", done: 41, total: 41 } as const;

test("lineReport() draws progress as a bar on a terminal", () => {
  const terminal = output(true);
  const report = lineReport(terminal);
  report.progress(half);
  report.progress(all);
  expect(terminal.written).toEqual([
    `\rLoading weights   [${"#".repeat(15)}${"-".repeat(15)}] 50%`,
    `\rCompiling kernels [${"#".repeat(30)}] 100%\n`,
  ]);
});

test("lineReport() writes a few lines of progress elsewhere, and warns", () => {
  const file = output(false);
  const report = lineReport(file);
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

test("quietReport() leaves a pipe alone", () => {
  const pipe = output(false);
  const report = quietReport(pipe);
  report.model("m");
  report.progress(all);
  expect(pipe.written).toEqual([]);
});
