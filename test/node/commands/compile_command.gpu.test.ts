import { expect, test } from "vitest";
import { runCommand } from "../../../src/node/command.ts";
import { startEngine } from "../../../src/node/serve/start_engine.ts";
import { smallestCaseOnly } from "../../support/devices/gpu.ts";

async function run(...args: readonly string[]) {
  let stdout = "";
  let stderr = "";
  const code = await runCommand(args, {
    startEngine,
    stdout: { write: (text: string) => (stdout += text) },
    stderr: { write: (text: string) => (stderr += text) },
  });
  return { code, stdout, stderr };
}

/** Two ranks cannot share all of the model that comes with the package. */
const COMMANDS = [
  ["compile_deep_gemm", "1"],
  ["compile_kernels", "2"],
] as const;

test.each(COMMANDS.slice(0, smallestCaseOnly ? 1 : 2))(
  "wisp %s --tp %s says how many pipelines it compiled, and how long it took",
  async (command, ranks) => {
    const { code, stdout, stderr } = await run(
      ...[command, "--tp", ranks, "--trust-remote-code", "--page-size", "16"],
    );
    expect(code).toBe(0);
    const [, count] = /^Compiled (\d+) pipelines in \d+\.\d\d s$/m.exec(stdout)!;
    expect(stderr).toContain(`Compiling kernels: 100% (${count} of ${count})\n`);
    expect(stderr).not.toContain("Loading weights");
    expect(stdout.match(/^ {2}\d+\.\d\d s for \w+\/\w+ /gm)).toHaveLength(3);
  },
);

test.each([
  [["--tp", "0"], "Cannot use option --tp 0: it must be a whole number, 1 or more"],
  [["--port", "1"], "--port"],
  [["model"], 'Cannot use argument "model": only options are expected'],
  [["--kv-cache-dtype", "int3"], "--kv-cache-dtype"],
] as const)("wisp compile_kernels %j is refused", async (args, message) => {
  const { code, stderr } = await run("compile_kernels", ...args);
  expect(stderr).toContain(message);
  expect(code).toBe(2);
});
