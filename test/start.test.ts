import { type ChildProcess, spawn } from "node:child_process";
import { once } from "node:events";
import { fileURLToPath } from "node:url";
import { afterEach, expect, test } from "vitest";
import { until } from "./support/until.ts";

const root = fileURLToPath(new URL("..", import.meta.url));
const running: ChildProcess[] = [];

afterEach(() => {
  // With what they have started.
  for (const { exitCode, signalCode, pid } of running.splice(0)) {
    if (exitCode === null && signalCode === null) process.kill(-pid!, "SIGKILL");
  }
});

/** `npm start`, and its output up to a line that matches. */
const start = (args: readonly string[], last: RegExp) => run(["start", "--", ...args], last);

/** A script of the package, and its output up to a line that matches. */
async function run(args: readonly string[], last: RegExp) {
  // As a person's shell has it, not as the test runner's; plain text, and no browser is opened.
  const others = { VITEST: undefined, NODE_ENV: undefined, FORCE_COLOR: undefined };
  const env = { ...process.env, ...others, NO_COLOR: "1", BROWSER: "none" };
  const child = spawn("npm", args, { cwd: root, env, detached: true });
  running.push(child);
  let output = "";
  await new Promise<void>((resolve, reject) => {
    for (const stream of [child.stdout, child.stderr]) {
      stream.on("data", (data) => {
        output += data;
        if (last.test(output)) resolve();
      });
    }
    child.once("exit", () => reject(new Error(`npm ${args[0]} ended: ${output}`)));
  });
  return { child, output: () => output };
}

test("npm start tells what it does, takes options, and drains at SIGTERM", async () => {
  const { child, output } = await start(["--port", "0", "--max-running", "4"], /^Ready: /m);
  const order = [
    /^Model: .*tiny-deepseek-v3$/m,
    /^Adapter: .+$/m,
    /^Memory: .+ of weights, .+ of KV cache for 8192 tokens/m,
    /^Loading weights: 100%$/m,
    /^Listening on http:\/\/127\.0\.0\.1:\d+$/m,
    /^Ready: .+$/m,
  ].map((line) => output().search(line));
  expect(order).not.toContain(-1);
  expect(order).toEqual([...order].sort((a, b) => a - b));

  const [, url] = /Listening on (\S+)/.exec(output())!;
  const answer = await fetch(`${url}/generate`, {
    method: "POST",
    headers: { "content-type": "application/json" },
    body: JSON.stringify({
      text: "Hello",
      stream: true,
      sampling_params: { max_new_tokens: 40, temperature: 0, ignore_eos: true },
    }),
  });
  const reader = answer.body!.pipeThrough(new TextDecoderStream()).getReader();
  let text = (await reader.read()).value ?? "";
  child.kill("SIGTERM");
  for (let part = await reader.read(); !part.done; part = await reader.read()) text += part.value;
  expect(text).toMatch(/"completion_tokens":40.*data: \[DONE\]\n\n$/s);
  const [code] = await once(child, "exit");
  expect(code).toBe(0);
}, 180_000);

test("npm start refuses what comes while it drains, and ends at once at a second SIGTERM", async () => {
  const { child, output } = await start(["--port", "0"], /^Ready: /m);
  const [, url] = /Listening on (\S+)/.exec(output())!;
  const body = JSON.stringify({
    text: "Hello",
    stream: true,
    sampling_params: { max_new_tokens: null, ignore_eos: true },
  });
  const init = { method: "POST", headers: { "content-type": "application/json" }, body };
  expect((await fetch(`${url}/health`)).status).toBe(200);
  const answer = await fetch(`${url}/generate`, init);
  const reader = answer.body!.getReader();
  await reader.read();
  child.kill("SIGTERM");
  await until(() => expect(output()).toContain("Stopping: running requests have 300 seconds"));
  expect((await fetch(`${url}/health`)).status).toBe(503);
  expect((await fetch(`${url}/generate`, init)).status).toBe(503);
  expect(child.exitCode).toBeNull();
  child.kill("SIGTERM");
  const [code] = await once(child, "exit");
  expect(code).toBe(143);
}, 180_000);

test("npm run demo builds the demo and serves it with its model", async () => {
  const { output } = await run(["run", "demo"], /Local:.*http:\S+/);
  const [address] = /http:\S+/.exec(output())!;
  const get = async (path: string) => (await fetch(new URL(path, address))).text();
  expect(await get("index.html")).toContain("<title>wisp");
  expect(await get("device.html")).toContain("<title>This device");
  expect(await get("browser_service_worker.js")).toContain("addEventListener");
  expect(JSON.parse(await get("tiny-deepseek-v3/config.json")).model_type).toBe("deepseek_v3");
}, 60_000);
