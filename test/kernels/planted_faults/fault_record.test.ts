import { describe, expect, test } from "vitest";
import type { KernelCheck } from "../../../kernels/check.ts";
import {
  hashOfCheck,
  plainProgramText,
  readFaultRecord,
} from "../../support/devices/fault_record.ts";

const checks = Object.values(
  import.meta.glob<{ readonly default: KernelCheck<object> }>("../../../kernels/**/*.check.ts", {
    eager: true,
  }),
).map((module) => module.default);

describe("the record of planted faults", () => {
  test("has each check once a driver, of which all planted faults were caught", () => {
    const record = readFaultRecord();
    const keys = record.map(({ kernel, driver }) => `${kernel}, ${driver}`);
    expect(new Set(keys).size).toBe(keys.length);
    for (const { kernel, caught, planted } of record) {
      const check = checks.find(({ name }) => name === kernel);
      expect(check, `npm run planted_faults: there is no ${kernel}`).toBeDefined();
      expect(planted).toBeLessThanOrEqual(check!.mutants.length);
      expect(caught, kernel).toBe(planted);
    }
  });
});

describe("the hash of a check", () => {
  const hash = (name: string, text: string) => hashOfCheck(`kernels/${name}.check.ts`, [text]);

  test("differs between checks and texts, and is the same every time", () => {
    const linear = hash("linear/linear", "fn main() {}");
    expect(linear).toMatch(/^[0-9a-f]{16}$/);
    expect(hash("linear/linear", "// A comment.\nfn main() {}\n")).toBe(linear);
    expect(hash("linear/linear", "fn main() { return; }")).not.toBe(linear);
    expect(hash("probe/copy", "fn main() {}")).not.toBe(linear);
  });

  test.each([
    ["a comment", "const a = 1; // one\n/** two */\nexport { a };", true],
    ["layout", "  const a = 1;\n\n    export { a };\n", true],
    ["another value", "const a = 2;\nexport { a };", false],
    ["a text like a comment", 'const a = "// 1";\nexport { a };', false],
  ])("of a file with %s", (_, source, isSame) => {
    const plain = plainProgramText("a.ts", "const a = 1;\nexport { a };");
    expect(plainProgramText("a.ts", source) === plain).toBe(isSame);
  });

  test("does not change when a file that it imports moves", () => {
    const [here, there] = ["./b.ts", "../other/b.ts"].map((path) =>
      plainProgramText("a.ts", `import { b } from "${path}";\nb();`),
    );
    expect(here).toBe(there);
  });
});
