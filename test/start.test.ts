import { type ChildProcess, spawn } from "node:child_process";
import { once } from "node:events";
import { fileURLToPath } from "node:url";
import { afterEach, expect, test } from "vitest";
import { freePort, lackOfMpi, tellLack } from "./support/mpi/processes.ts";
import { DOCUMENTS, snippetsOf } from "./support/package/documents.ts";
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

/** Command lines of docs/parallel.md that start servers here: those of one block belong together. */
const PARALLEL_STARTS = snippetsOf(DOCUMENTS.find(({ path }) => path === "docs/parallel.md")!)
  .map(({ code }) => code.trim().split("\n"))
  .filter(([line]) => line!.startsWith("npm start -- "));
const lack = lackOfMpi();
tellLack(lack);

async function greedyAnswer(url: string): Promise<unknown> {
  const body = { prompt: "The sea", max_tokens: 12, temperature: 0, logprobs: 1 };
  const response = await fetch(`${url}/v1/completions`, {
    method: "POST",
    headers: { "content-type": "application/json" },
    body: JSON.stringify(body),
  });
  expect(response.status).toBe(200);
  return ((await response.json()) as { readonly choices: unknown }).choices;
}

test.skipIf(lack !== undefined)(
  "the starts of docs/parallel.md, with ranks and with two machines, answer alike",
  async () => {
    const address = `127.0.0.1:${await freePort()}`;
    const argumentsOf = (line: string) => [
      ...line.slice("npm start -- ".length).split(" "),
      ...["--port", "0"],
    ];
    const answers: unknown[] = [];
    for (const block of PARALLEL_STARTS) {
      const servers = await Promise.all(
        block.map((line) =>
          start(argumentsOf(line.replace(/127\.0\.0\.1:\d+/, address)), /^Ready: /m),
        ),
      );
      const [, url] = /Listening on (\S+)/.exec(servers[0]!.output())!;
      answers.push(await greedyAnswer(url!));
      const ended = servers.map(({ child }) => once(child, "exit"));
      for (const { child } of servers) child.kill("SIGTERM");
      expect((await Promise.all(ended)).map(([code]) => code)).toEqual(block.map(() => 0));
      expect(servers[0]!.output()).toContain("Ranks: 2 share the model");
      expect(servers[0]!.output()).toContain("Ranks: each has whole self_attn, as");
    }
    expect(PARALLEL_STARTS.map(({ length }) => length)).toEqual([1, 2]);
    expect(answers[1]).toEqual(answers[0]);
  },
  300_000,
);

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
