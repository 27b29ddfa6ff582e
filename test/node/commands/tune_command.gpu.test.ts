import { mkdtempSync, readFileSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { expect, test } from "vitest";
import { runCommand } from "../../../src/node/command.ts";
import { formatAttention } from "../../../src/node/commands/tune_command.ts";
import { storedTuning } from "../../../src/node/device/tuning_file.ts";
import { device, fullTest } from "../../support/devices/gpu.ts";

// Dozens of pipelines, in three layouts.
test.skipIf(!fullTest)("wisp tune prints what it chose and keeps it", async () => {
  const folder = mkdtempSync(join(tmpdir(), "wisp-tune-"));
  const path = join(folder, "tunings.json");
  const written: string[] = [];
  const output = { write: (text: string) => written.push(text) > 0 };
  const args = ["tune", "--shapes", "40x300", "--dtypes", "int8", "--output", path];
  try {
    const code = await runCommand(args, {
      startEngine: () => Promise.reject(new Error("no engine is started")),
      ...{ stdout: output, stderr: output },
    });
    expect(written.join("")).toContain(`Kept in ${path}\n`);
    expect(code).toBe(0);
    expect(readFileSync(path, "utf8")).toContain('"version": 1');
    const stored = await storedTuning(device.adapterInfo, path);
    expect(Object.keys(stored?.tuning.dtypeForms ?? {})).toEqual(["int8"]);
    expect(stored?.tuning.attention).toBeDefined();
    expect(written.join("")).toContain(formatAttention(stored!.tuning.attention!));
    const lines = written.join("").split("\n");
    const table = lines.filter((line) => /^ +int8 /.test(line));
    expect(table).toHaveLength(stored!.tuning.rowForms.length);
  } finally {
    rmSync(folder, { recursive: true });
  }
});
