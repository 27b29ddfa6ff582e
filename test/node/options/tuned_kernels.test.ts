import { existsSync } from "node:fs";
import { afterEach, expect, test, vi } from "vitest";
import { runCommand } from "../../../src/node/command.ts";
import { tunedKernels } from "../../../src/node/options/engine_variables.ts";
import { OptionError } from "../../../src/node/options/option_parser.ts";
import { defaultModelPath } from "../../../src/node/package_root.ts";
import { startEngine } from "../../../src/node/serve/start_engine.ts";

const NAME = "SVC_ENABLE_JIT_DEEPGEMM";

test.each([
  [undefined, undefined],
  ["", undefined],
  ["0", false],
  [" false ", false],
  ["1", true],
  ["True", true],
])("SVC_ENABLE_JIT_DEEPGEMM %j is %j", (value, tuned) => {
  expect(tunedKernels({ [NAME]: value })).toBe(tuned);
});

test.each(["off", "2", "-1", "constructor"])("SVC_ENABLE_JIT_DEEPGEMM %s is refused", (value) => {
  const read = () => tunedKernels({ [NAME]: value });
  expect(read).toThrow(OptionError);
  expect(read).toThrow(`Cannot use ${NAME} ${value}: it must be 0 or 1`);
});

afterEach(() => {
  vi.unstubAllEnvs();
});

test.skipIf(!existsSync(defaultModelPath()))(
  "a start with another value ends before a device is opened",
  async () => {
    vi.stubEnv(NAME, "maybe");
    let stderr = "";
    const code = await runCommand(["launch_server", "--port", "0"], {
      startEngine,
      stdout: { write: () => {} },
      stderr: { write: (text: string) => (stderr += text) },
    });
    expect(code).toBe(2);
    expect(stderr).toContain(`Cannot use ${NAME} maybe: it must be 0 or 1`);
  },
);
