/** `--prefix-cache-dir`, from the command line to the files and back. */
import { existsSync, mkdtempSync, readdirSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, expect, test } from "vitest";
import { runCommand } from "../../../src/node/command.ts";
import { defaultModelPath } from "../../../src/node/package_root.ts";
import { startEngine } from "../../../src/node/serve/start_engine.ts";

const folder = mkdtempSync(join(tmpdir(), "wisp-prefixes-"));
afterAll(() => rmSync(folder, { recursive: true }));

const OPTIONS = ["--context-length", "512", "--prefix-cache-dir", folder];
const input_ids = Array.from({ length: 150 }, (_, i) => 3 + ((i * 31) % 2000));

/** Runs a server while a test works with it. */
async function serving<T>(work: (url: string) => Promise<T>): Promise<T> {
  let stdout = "";
  let log = "";
  let ready = () => {};
  const isReady = new Promise<void>((resolve) => {
    ready = resolve;
  });
  const write = (text: string) => {
    log += text;
    if (/^Ready: .*\n$/m.test(log)) ready();
  };
  const answers = { write: (text: string) => (stdout += text) };
  const args = ["launch_server", "--port", "0", ...OPTIONS];
  const code = runCommand(args, { startEngine, stdout: answers, stderr: { write } });
  await Promise.race([isReady, code]);
  try {
    return await work(/Listening on (\S+)/.exec(log)![1]!);
  } finally {
    const stop = process.listeners("SIGTERM").at(-1) as (name: string, number: number) => void;
    stop("SIGTERM", 15);
    expect(await code).toBe(0);
    expect(stdout).toBe("");
  }
}

async function post(url: string, body: object) {
  const headers = { "content-type": "application/json" };
  const response = await fetch(url, { method: "POST", headers, body: JSON.stringify(body) });
  return (await response.json()) as { text: string; meta_info: { cached_tokens: number } };
}

test.skipIf(!existsSync(defaultModelPath()))(
  "a server finds what one before it has stored",
  async () => {
    const sampling_params = { temperature: 0, max_new_tokens: 8, ignore_eos: true };
    const ask = (url: string, fields: object = {}) =>
      post(`${url}/generate`, { input_ids, sampling_params, ...fields });
    const before = await serving((url) => ask(url, { store_prefix: true }));
    expect(before.meta_info.cached_tokens).toBe(0);
    expect(readdirSync(folder)).toHaveLength(2);
    await serving(async (url) => {
      const after = await ask(url);
      expect(after.text).toBe(before.text);
      expect(after.meta_info.cached_tokens).toBe(128);
      const info = await fetch(`${url}/get_server_info`);
      const { internal_states } = (await info.json()) as { internal_states: object[] };
      expect(internal_states[0]).toMatchObject({
        prefix_store: { num_stored_tokens: 0, num_restored_tokens: 128 },
      });
      const flushed = await fetch(`${url}/flush_cache?stored=true`, { method: "POST" });
      expect(flushed.status).toBe(200);
      expect(readdirSync(folder)).toEqual([]);
    });
  },
  240_000,
);

test.each([
  [["--prefix-cache-size", "1G"], "--prefix-cache-size without --prefix-cache-dir"],
  [
    ["--prefix-cache-dir", folder, "--disable-radix-cache"],
    "--prefix-cache-dir together with --disable-radix-cache",
  ],
])("options that make each other useless are refused: %j", async (args, message) => {
  let stderr = "";
  const failed = { write: (text: string) => (stderr += text) };
  const given = ["launch_server", "--port", "0", ...args];
  const code = await runCommand(given, { startEngine, stdout: { write() {} }, stderr: failed });
  expect(code).toBe(2);
  expect(stderr).toContain(message);
});
