/** The command `wisp simulate`. */
import { mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, expect, test } from "vitest";
import { layoutOf, measuredOptions } from "../../src/node/simulate/simulate_command.ts";
import { H200, profileJson } from "../../src/simulate/adapter_profile.ts";
import type { SimulationReport } from "../../src/simulate/simulate.ts";
import { EMBEDDED_MODEL } from "../support/checkpoints/embedded_model.ts";
import { folderSource } from "../support/checkpoints/folder_source.ts";
import { startCommand } from "../support/package/run_command.ts";

const folder = mkdtempSync(join(tmpdir(), "wisp-simulate-"));
afterAll(() => rmSync(folder, { recursive: true }));

const DEMAND = ["--model", EMBEDDED_MODEL, "--input-tokens", "64", "--output-tokens", "64"];
async function run(...args: string[]) {
  const { code, stdout, stderr } = startCommand(["simulate", ...DEMAND, ...args]);
  return { code: await code, stdout: stdout(), stderr: stderr() };
}
async function report(...args: string[]): Promise<SimulationReport> {
  const { code, stdout, stderr } = await run("--json", ...args);
  expect(code, stderr).toBe(0);
  return JSON.parse(stdout);
}

test("tells layout, memory, prompts and steps", async () => {
  const { code, stdout, stderr } = await run(
    "--devices",
    "4",
    "--tp",
    "2",
    "--dp",
    "2",
    "--batches",
    "1,8",
  );
  expect(code, stderr).toBe(0);
  const [title, device, cache, prompts, , header, one, eight] = stdout.split("\n");
  expect(title).toMatch(/on 4 devices, 2 replicas of 2 ranks, of NVIDIA H200$/);
  expect(device).toMatch(/^Each device: .* of weights, .* of KV cache, of 70\.40 GiB$/);
  expect(cache).toMatch(/^KV cache: [\d,]+ tokens a replica, .*; 2 ranks hold the same$/);
  expect(prompts).toMatch(/^Prompts: [\d.]+ ms for the first 64 tokens, .*; bound by /);
  expect(header).toMatch(/^batch +ms a step +tokens\/s +with prompts +requests\/s +bound by$/);
  expect([one, eight]).toEqual([expect.stringMatching(/^ +1 /), expect.stringMatching(/^ +8 /)]);
});

test("each option of speed changes what it is about", async () => {
  const two = ["--tp", "2"];
  const usual = await report(...two);
  const parts = async (...args: string[]) => (await report(...two, ...args)).decode[0]!.parts;
  const before = usual.decode[0]!.parts;
  expect((await parts("--link", "1Gbit")).link).toBeGreaterThan(before.link);
  expect((await parts("--link-latency", "100")).link).toBeGreaterThan(before.link);
  const slowSums = JSON.stringify({ bandwidth: "400Gbit", sum: { latency: 1000 } });
  // One exchange at least is of sums.
  expect((await parts("--link", slowSums)).link).toBeGreaterThan(before.link + 9e-4);
  expect((await parts("--bandwidth", "10GB/s")).weights).toBeGreaterThan(before.weights);
  expect((await parts("--flops", "0.01")).arithmetic).toBeGreaterThan(before.arithmetic);
  expect((await parts("--ranks-per-adapter", "2")).launches).toBeCloseTo(2 * before.launches);
  const apart = await report("--dp", "3", "--prefill-replicas", "1");
  expect(apart.layout).toMatchObject({ replicas: 0, prefillReplicas: 1, decodeReplicas: 2 });
  expect(apart.prefill.transferSeconds).toBeGreaterThan(0);
  const memory = await report("--memory", "1G", "--mem-fraction-static", "0.5");
  expect(memory.memory.budget).toBe(2 ** 29);
  const chunks = await report("--chunked-prefill-size", "16", "--max-running-requests", "2");
  expect([chunks.prefill.chunkTokens, chunks.memory.requests.running]).toEqual([16, 2]);
  expect((await report("--kv-cache-dtype", "f32")).memory.bytesPerToken).toBe(
    2 * usual.memory.bytesPerToken,
  );
  expect((await report("--weight-type", "bf16")).memory.weightBytes).toBeGreaterThan(
    (await report("--weight-type", "awq")).memory.weightBytes,
  );
  const context = await run("--context-length", "100");
  expect(context.stderr).toContain("a sequence has at most 100");
});

test("goes by a profile of a file", async () => {
  const path = join(folder, "profile.json");
  writeFileSync(path, JSON.stringify({ ...profileJson(H200), name: "Mine", launch: 1 }));
  const { adapter, decode } = await report("--profile", path);
  expect([adapter, decode[0]!.bound]).toEqual(["Mine", "launches"]);
  writeFileSync(path, "{");
  expect(await run("--profile", path)).toMatchObject({
    code: 1,
    stderr: expect.stringContaining(`Cannot read profile ${path}`),
  });
  const both = await run("--profile", path, "--measure", path);
  expect([both.code, both.stderr]).toEqual([2, expect.stringContaining("--profile together with")]);
});

test("measures the model as it is to be predicted", async () => {
  const options = { quantization: "int8", kvCacheDtype: "f32" } as const;
  expect(await measuredOptions(options, folderSource(EMBEDDED_MODEL))).toEqual({
    quantization: "int8",
    cacheDtype: "f32",
  });
});

test("devices are those of the layout", () => {
  const layout = (options: Partial<Parameters<typeof layoutOf>[0]>) =>
    layoutOf({ devices: undefined, tpSize: undefined, dpSize: 1, prefillReplicas: 0, ...options });
  expect(layout({})).toMatchObject({ tensorParallelSize: 1, replicas: 1 });
  expect(layout({ devices: 16 })).toMatchObject({ tensorParallelSize: 16, replicas: 1 });
  expect(layout({ devices: 16, dpSize: 2 })).toMatchObject({ tensorParallelSize: 8, replicas: 2 });
  expect(() => layout({ devices: 16, dpSize: 3 })).toThrow("--dp-size 3 does not divide it");
  expect(() => layout({ devices: 16, tpSize: 4 })).toThrow("--tp-size 4 and --dp-size 1 take 4");
  expect(() => layout({ dpSize: 2, prefillReplicas: 2 })).toThrow("none would generate");
});

test.each([
  [["model"], 2, 'Cannot use argument "model"'],
  [["--link", "fast"], 2, "Cannot use option --link fast: write a number and Gbit"],
  [["--link", '{"bandwith": "1Gbit"}'], 2, 'with this JSON: it has "bandwith", not bandwidth'],
  [["--measure", "x.json", "--weight-type", "bf16"], 2, "--measure together with --weight-type"],
  [["--bandwidth", "3"], 2, "Cannot use option --bandwidth 3: write a number and Gbit"],
  [["--batches", "0"], 2, "Cannot use option --batches 0"],
  [["--model", "some/model"], 1, "some/model"],
  [["--memory", "1M"], 1, "Cannot load the model: its weights take"],
])("refuses %o", async (args, code, message) => {
  expect(await run(...args)).toMatchObject({ code, stderr: expect.stringContaining(message) });
});
