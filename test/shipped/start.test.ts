/** What the program does before it is asked to do anything: what it loads, and what a terminal sees. */
import { spawnSync } from "node:child_process";
import { readFileSync, statSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { fileURLToPath, pathToFileURL } from "node:url";
import { afterAll, expect, test } from "vitest";
import { withoutKnownWarnings } from "../../src/node/device/dawn_warnings.ts";
import { environment, scratch, shipped, stopAll, wisp } from "./support/wisp.ts";

afterAll(stopAll);

/** A word of a shell's command. */
const quoted = (word: string) => `'${word.replaceAll("'", "'\\''")}'`;

const WARNING = (kind: string) =>
  `Warning: maxDynamic${kind}BuffersPerPipelineLayout artificially reduced from 1000000 to 16 to fit dynamic offset allocation limit.\n`;

test.skipIf(spawnSync("script", ["--version"]).status !== 0)(
  "a terminal sees what a start says and fails with, and no warnings of Dawn",
  () => {
    const program = join(shipped(), "node_modules", "wisp-llm", "dist", "wisp.js");
    const options = "--port 0 --context-length 1000000";
    const line = `${quoted(process.execPath)} ${quoted(program)} launch_server ${options}`;
    const { stdout } = spawnSync("script", ["-qec", line, "/dev/null"], {
      encoding: "utf8",
      env: environment(),
    });
    expect(stdout).toMatch(/^Adapter: /m);
    expect(stdout).toContain("Cannot use option --context-length ");
    expect(stdout).not.toContain("artificially reduced");
  },
);

test("all but two warnings of Dawn is told", () => {
  const error = "MESA: error: the device is gone\n";
  const text = `${WARNING("Uniform")}${error}Warning: maxBufferSize\n${WARNING("Storage")}`;
  expect(withoutKnownWarnings(text)).toBe(`${error}Warning: maxBufferSize\n`);
});

/** Addresses of what a command line loads, Node's own modules aside. */
async function loadedBy(args: readonly string[]): Promise<readonly string[]> {
  const folder = scratch("loaded");
  const list = join(folder, "loaded.txt");
  writeFileSync(list, "");
  writeFileSync(
    join(folder, "hooks.mjs"),
    `import { appendFileSync } from "node:fs";
    export function load(url, context, next) {
      appendFileSync(${JSON.stringify(list)}, url + "\\n");
      return next(url, context);
    }`,
  );
  const register = join(folder, "register.mjs");
  writeFileSync(
    register,
    'import { register } from "node:module"; register("./hooks.mjs", import.meta.url);',
  );
  const env = { NODE_OPTIONS: `--import ${pathToFileURL(register).href}` };
  const { code, stderr } = await wisp(args, { env });
  expect([code, stderr]).toEqual([0, ""]);
  return readFileSync(list, "utf8")
    .trimEnd()
    .split("\n")
    .filter((url) => !url.startsWith("node:") && !url.startsWith(pathToFileURL(folder).href));
}

const help = [["--help"], ["--version"]];
const commands = ["serve", "download", "inspect", "launch_server", "generate", "compile_kernels"];
commands.push("tune", "bench_serving", "check_ranks", "build-mpi", "check-schema", "doctor");
commands.push("simulate");

test.each([...help, ...commands.map((name) => [name, "--help"])])(
  "wisp %s %s comes at once: it loads no GPU, no server, no tokenizer and no engine",
  async (...args) => {
    const loaded = await loadedBy(args.filter((arg) => arg !== undefined));
    expect(loaded[0]).toMatch(/\/dist\/wisp\.js$/);
    const heavy = loaded.filter((url) => !url.includes("/wisp-llm/dist/"));
    expect(heavy).toEqual([]);
    const sizes = loaded.map((url) => statSync(fileURLToPath(url)).size);
    expect(sizes.reduce((sum, size) => sum + size)).toBeLessThan(520_000);
    expect(loaded.filter((url) => /\/(engine|model|app|device)-[^/]*$/.test(url))).toEqual([]);
  },
);
