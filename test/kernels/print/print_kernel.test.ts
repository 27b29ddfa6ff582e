/** `npm run kernel`: which text it prints, where its parts come from, and what it refuses. */
import { spawnSync } from "node:child_process";
import { fileURLToPath } from "node:url";
import { describe, expect, test } from "vitest";
import { assembledKernels } from "../../../kernels/print/assembled_kernels.ts";
import { partsOf, withoutBanners } from "../../../kernels/print/kernel_parts.ts";
import { chooseTuning } from "../../../kernels/print/named_tuning.ts";
import {
  KERNEL_CHECKS,
  KERNEL_FILES,
  kernelList,
  printedKernels,
  readQuestion,
} from "../../../kernels/print/print_kernel.ts";

const root = fileURLToPath(new URL("../../..", import.meta.url));

/** The files that a printed text names, in their order. */
const bannersOf = (printed: string) =>
  Array.from(printed.matchAll(/^\/\/\| ---- (.*) ----$/gm), ([, path]) => path!);

test("every kernel is found by its file, and every text by a check", () => {
  const kernels = Object.keys(KERNEL_FILES).filter((path) => !path.startsWith("kernels/common/"));
  expect(kernels.length).toBeGreaterThan(40);
  const printed = new Set<string>();
  for (const name of KERNEL_CHECKS.keys()) {
    for (const path of printedKernels({ name }).flatMap(bannersOf)) printed.add(path);
  }
  expect(kernels.filter((path) => !printed.has(path))).toEqual([]);
});

test.each([...KERNEL_CHECKS.values()])("$name is put together from files alone", (check) => {
  const [shape] = check.cases as readonly [object];
  for (const { tuning, traits } of check.tunings.map(
    (_, i) => chooseTuning(check, shape, `${i}`)!,
  )) {
    for (const { code } of assembledKernels(check, { shape, tuning }, traits)) {
      const parts = partsOf(code, KERNEL_FILES);
      expect(parts.map(({ text }) => text).join("")).toBe(code);
      expect(parts.filter(({ path }) => path !== undefined).length).toBeGreaterThan(0);
      const added = parts.filter(({ path }) => path === undefined).map(({ text }) => text);
      expect(
        added
          .join("")
          .replace(/^(enable|diagnostic)\b.*;$/gm, "")
          .trim(),
      ).toBe("");
    }
  }
});

test("every planted fault of a check finds the text that it replaces", () => {
  const missing: string[] = [];
  for (const check of KERNEL_CHECKS.values()) {
    for (const { name, replace, case: index = 0, tuning: own = 0 } of check.mutants) {
      const shape = check.cases[index]!;
      const { tuning, traits } = chooseTuning(check, shape, `${own}`)!;
      const texts = assembledKernels(check, { shape, tuning }, traits).map(({ code }) => code);
      if (!texts.some((code) => code.includes(replace))) missing.push(`${check.name}: ${name}`);
    }
  }
  expect(missing).toEqual([]);
});

test("what is printed is what is compiled, but for lines with a mark", () => {
  const check = KERNEL_CHECKS.get("attention/mla_decode")!;
  const shape = check.cases[1]!;
  const { tuning, traits } = chooseTuning(check, shape, "2")!;
  const compiled = assembledKernels(check, { shape, tuning }, traits)
    .filter(({ kernel }) => kernel === check.name)
    .map(({ code }) => code);
  const printed = printedKernels({ name: check.name, case: "1", tuning: "2" });
  expect(compiled.length).toBeGreaterThan(1);
  expect(printed.map(withoutBanners)).toEqual(compiled);
});

test("values of constants stand above a text, those of its files beside them", () => {
  const [printed] = printedKernels({ name: "cache/mla_gather" }) as [string];
  const [text] = printedKernels({ name: "sampling/argmax", tuning: "1" }) as [string];
  expect(printed).toContain("//| constants: as the files have them\n");
  const path = "kernels/sampling/argmax.wgsl";
  expect(text).toContain(`//|   WORKGROUP_SIZE = 256u, as ${path} has it\n`);
  const [other] = printedKernels({ name: "sampling/argmax" }) as [string];
  expect(other).toContain(`//|   WORKGROUP_SIZE = 64u, in place of 256u of ${path}\n`);
  expect(other).toContain("\nconst WORKGROUP_SIZE = 64u;\n");
});

describe("a tuning of the table", () => {
  test("shares attention out as its adapter does, whatever the case of its name", () => {
    const name = "attention/mla_decode";
    const texts = printedKernels({ name, tuning: "nvidia" });
    expect(texts).toEqual(printedKernels({ name, tuning: "NVIDIA" }));
    for (const text of texts) expect(text).toContain("\nconst LANES = 32u;\n");
    const [plain] = printedKernels({ name, tuning: "Intel" }) as [string];
    expect(bannersOf(plain)).toContain("kernels/common/attention/exchange_memory.wgsl");
  });

  test.each(["NVIDIA", "Intel"])("of %s fits every kernel", (tuning) => {
    for (const name of KERNEL_CHECKS.keys()) {
      for (const text of printedKernels({ name, tuning })) expect(text).toContain("\n@compute");
    }
  });

  test("takes the form for the rows of the case", () => {
    const name = "linear/linear staged";
    const [staged] = printedKernels({ name, tuning: "NVIDIA" }) as [string];
    expect(bannersOf(staged)).toContain("kernels/common/dot/dot_rows_staged.wgsl");
    const [alone] = printedKernels({ name, tuning: "llvmpipe" }) as [string];
    expect(bannersOf(alone)).toContain("kernels/common/dot/dot_rows_alone.wgsl");
    expect(alone).toContain("\nconst TOKENS = 8u;\n");
  });
});

test("words of the command line are read", () => {
  expect(readQuestion([])).toBeUndefined();
  expect(readQuestion(["linear/linear", "int4", "--case", "1", "--tuning=AMD"])).toEqual({
    name: "linear/linear int4",
    case: "1",
    tuning: "AMD",
  });
});

test.each([
  [["norm/ad_norm"], /^Cannot print kernel norm\/ad_norm: .*near ones are norm\/add_norm/],
  [["zzzz"], "Cannot print kernel zzzz: no check has this name (npm run kernel lists all)"],
  [["probe/copy", "--case", "2"], "Cannot print kernel probe/copy: it has cases 0 to 1, no 2"],
  [["probe/copy", "--tuning", "Voodoo"], /there is no tuning Voodoo, but 0 to 0 .* NVIDIA/],
  [["probe/copy", "--tuning", "7"], "there is no tuning 7"],
  [["--cases", "1"], "Cannot print kernels: there is no option --cases"],
  [["probe/copy", "--case"], "Cannot print kernels: --case has no value"],
])("%j is refused", (args, message) => {
  expect(() => printedKernels(readQuestion(args)!)).toThrow(message);
});

test("the list has every kernel with its cases and tunings", () => {
  const list = kernelList();
  for (const name of KERNEL_CHECKS.keys()) expect(list).toContain(`${name}\n  --case 0 `);
  expect(list).toContain('--tuning 1  {"workgroupSize":256}');
  expect(list).toContain("NVIDIA");
});

test("npm run kernel answers on stdout, and refuses with exit code 1", () => {
  const run = (...args: readonly string[]) =>
    spawnSync("npm", ["run", "--silent", "kernel", "--", ...args], { cwd: root, encoding: "utf8" });
  const answered = run("norm/final_norm", "--tuning", "AMD");
  expect(answered.status).toBe(0);
  const [text] = printedKernels({ name: "norm/final_norm", tuning: "AMD" }) as [string];
  expect(answered.stdout).toBe(`${text.trimEnd()}\n`);
  const refused = run("norm/final_nor");
  expect(refused).toMatchObject({ status: 1, stdout: "" });
  expect(refused.stderr).toContain("Cannot print kernel norm/final_nor: no check has this name");
});
