/** What a report of a problem begins with: it has to be true, complete and without secrets. */

import { mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { createServer } from "node:http";
import type { AddressInfo } from "node:net";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterEach, expect, test, vi } from "vitest";
import type { DoctorReport } from "../../../src/node/doctor/doctor_report.ts";
import { startCommand } from "../../support/package/run_command.ts";
import "../../support/devices/gpu.ts";

afterEach(() => {
  vi.unstubAllEnvs();
});

const REPORT: readonly string[] = ["doctor", "--port", "0"];

async function doctor(...args: readonly string[]): Promise<DoctorReport> {
  const command = startCommand([...REPORT, "--json", ...args]);
  expect(await command.code).toBe(0);
  expect(command.stderr()).toBe("");
  return JSON.parse(command.stdout()) as DoctorReport;
}

test("wisp doctor prints every paragraph, and ends with 0 where an adapter works", async () => {
  const command = startCommand(REPORT);
  expect(await command.code).toBe(0);
  const headings = command.stdout().match(/^\w+(?=:$)/gm);
  expect(headings).toEqual([
    ...["Versions", "Adapter", "Memory", "Folders", "Server", "Missing", "Variables", "Warnings"],
  ]);
  expect(command.stdout()).toMatch(/^ {2}node +\d+\./m);
  expect(command.stdout()).toMatch(/^ {2}maxStorageBufferBindingSize +\d+$/m);
  expect(command.stdout()).toContain("An adapter works: models can be served here.\n");
  expect(command.started).toEqual([]);
});

test("wisp doctor --json has the same as data, sizes in bytes", async () => {
  const report = await doctor();
  expect(report.healthy).toBe(true);
  expect(report.versions).toEqual({
    wisp: expect.stringMatching(/^\d+\.\d+\.\d+$/),
    node: process.versions.node,
    webgpu: expect.stringMatching(/^\d+\.\d+\.\d+ \(Dawn\)$/),
    system: expect.stringContaining(process.arch),
  });
  expect(report.adapter).toMatchObject({
    name: expect.stringMatching(/./),
    features: expect.any(Array),
    limits: { maxBufferSize: expect.any(Number) },
    assumedMemory: expect.any(Number),
  });
  expect(report.memory.total).toBeGreaterThan(report.memory.free);
  expect(report.address).toEqual({ host: "127.0.0.1", port: 0 });
});

test("wisp doctor tells how large folders are, and writes into none that is not its own", async () => {
  const folder = mkdtempSync(join(tmpdir(), "wisp-doctor-"));
  writeFileSync(join(folder, "weights"), new Uint8Array(12_345));
  vi.stubEnv("HF_HUB_CACHE", folder);
  const { caches } = await doctor();
  expect(caches.map(({ name }) => name)).toEqual([
    "downloaded models",
    "unpacked drivers and shaders",
    "measured kernels",
    "compiled shaders of Mesa",
  ]);
  expect(caches[0]).toEqual({
    ...{ name: "downloaded models", path: folder, exists: true, bytes: 12_345 },
    ...{ isAll: true, isWritable: true },
  });
  const missing = join(folder, "none", "yet");
  vi.stubEnv("HF_HUB_CACHE", missing);
  const [absent] = (await doctor()).caches;
  expect(absent).toMatchObject({ path: missing, exists: false, bytes: 0, isWritable: true });
  rmSync(folder, { recursive: true });
});

test("wisp doctor shows variables that are read and no secret, and warns of those without effect", async () => {
  vi.stubEnv("HF_TOKEN", "hf_do_not_show");
  vi.stubEnv("HF_HUB_OFFLINE", "1");
  vi.stubEnv("NVSHMEM_IB_TRAFFIC_CLASS", "1");
  const report = await doctor();
  const shown = report.variables.filter(({ name }) => name.startsWith("HF_"));
  expect(shown).toEqual([
    { name: "HF_TOKEN", effect: "access token of the model hub" },
    { name: "HF_HUB_OFFLINE", value: "1", effect: "1 forbids downloads" },
  ]);
  expect(report.warnings[0]).toContain("NVSHMEM_IB_TRAFFIC_CLASS has no effect here");
  const text = startCommand(REPORT);
  expect(await text.code).toBe(0);
  for (const output of [JSON.stringify(report), text.stdout()]) {
    expect(output).not.toContain("do_not_show");
  }
});

test("wisp doctor warns of a hub's address that is none, instead of failing", async () => {
  vi.stubEnv("HF_ENDPOINT", "no address");
  const { warnings, caches } = await doctor();
  expect(warnings).toContainEqual(expect.stringContaining("Cannot use HF_ENDPOINT no address"));
  expect(caches).toEqual([]);
});

test("wisp doctor says that the server's port is in use", async () => {
  const server = createServer();
  await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
  const { port } = server.address() as AddressInfo;
  const { address } = await doctor("--port", String(port));
  expect(address.problem).toBe(`Cannot listen on 127.0.0.1:${port}: the port is in use`);
  await new Promise((resolve) => server.close(resolve));
});

test("wisp doctor ends with 2, behind its report, where a variable names no adapter", async () => {
  vi.stubEnv("WISP_ADAPTER", "cuda");
  const command = startCommand(REPORT);
  expect(await command.code).toBe(2);
  expect(command.stderr()).toMatch(/^Cannot use WISP_ADAPTER cuda: it must be auto, gpu,/);
  expect(command.stdout()).toContain("No adapter works.\n");
  expect(command.stdout()).toContain("WISP_ADAPTER=cuda\n");
});

test.each([
  [["--adapter", "cuda"], "it must be auto, gpu, lavapipe or swiftshader"],
  [["now"], 'Cannot use argument "now"'],
])("wisp doctor %j ends with 2", async (args, message) => {
  const command = startCommand(["doctor", ...args]);
  expect(await command.code).toBe(2);
  expect(command.stderr()).toContain(message);
  expect(command.stdout()).toBe("");
});
