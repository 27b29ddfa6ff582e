/**
 * What a start of the embedded model costs, with an empty shader cache and with a full one, each
 * in a process of its own that runs the built library.
 *
 * @module
 */
import { execFileSync } from "node:child_process";
import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { expect, test } from "vitest";
import { machine } from "./support/machine.ts";
import { table } from "./support/table.ts";

/** What load_child.mjs prints; milliseconds. */
interface Start {
  readonly adapter: string;
  readonly processToDevice: number;
  readonly weights: number;
  readonly pipelines: number;
  readonly slowest: readonly { readonly label: string; readonly milliseconds: number }[];
  readonly pipelinesAndTrial: number;
  readonly load: number;
  readonly firstToken: number;
  readonly nextFirstToken: number;
  readonly texts: readonly string[];
  readonly peakBytes: number;
}

/** JavaScript heap and array buffers while loading, whatever the model's size. */
const MOST_BYTES = 256 * 2 ** 20;
const WARM_STARTS = 3;

const path = (name: string) => fileURLToPath(new URL(name, import.meta.url));

function start(shaderCache: string): Start {
  const env = { ...process.env, MESA_SHADER_CACHE_DIR: shaderCache };
  const printed = execFileSync(process.execPath, [path("load_child.mjs")], {
    env,
    encoding: "utf8",
    stdio: ["ignore", "pipe", "ignore"],
  });
  const begun = JSON.parse(printed.trim().split("\n").at(-1)!) as Start;
  for (const text of begun.texts) expect(text).toMatch(/^The capital of Japan is Tokyo\./);
  expect(begun.peakBytes).toBeLessThan(MOST_BYTES);
  return begun;
}

test("load, cold and warm", () => {
  execFileSync(process.execPath, [path("../.ci/build_when_stale.mjs")], { stdio: "inherit" });
  const shaderCache = mkdtempSync(join(tmpdir(), "wisp-shaders-"));
  try {
    const cold = start(shaderCache);
    const starts = Array.from({ length: WARM_STARTS }, () => start(shaderCache));
    const warm = starts.reduce((a, b) => (a.load + a.firstToken < b.load + b.firstToken ? a : b));
    expect(warm.pipelines).toBe(cold.pipelines);
    const ms = (value: number) => value.toFixed(0);
    const rows = (
      [
        ["process to device, ms", ({ processToDevice }) => ms(processToDevice)],
        ["self-test and weights, ms", ({ weights }) => ms(weights)],
        ["pipelines, trial of bits, ms", ({ pipelinesAndTrial }) => ms(pipelinesAndTrial)],
        ["load, ms", ({ load }) => ms(load)],
        ["first token after it, ms", ({ firstToken }) => ms(firstToken)],
        ["first token of the next request, ms", ({ nextFirstToken }) => ms(nextFirstToken)],
        ["pipelines", ({ pipelines }) => `${pipelines}`],
        ["peak heap and array buffers, MiB", ({ peakBytes }) => (peakBytes / 2 ** 20).toFixed(1)],
      ] satisfies [string, (from: Start) => string][]
    ).map(([name, of]) => [name, of(cold), of(warm)]);
    console.log(`${machine()}\n${table(["start", "cold", "warm"], rows)}`);
    const slowest = cold.slowest.map(({ label, milliseconds }) => [ms(milliseconds), label]);
    console.log(table(["cold, ms", "pipeline, after the self-test"], slowest));
  } finally {
    rmSync(shaderCache, { recursive: true, force: true });
  }
}, 300_000);
