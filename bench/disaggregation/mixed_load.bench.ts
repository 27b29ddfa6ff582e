/**
 * Chats that are being answered while long prompts come: how long a prompt waits for its first token,
 * and chats for each of theirs, at one server and at a prefill and a decode server behind a router.
 *
 * All are processes of one machine. Where they share its processors, as software adapters do, the pair
 * has no more to compute with than the one server: what it shows there is what prompts and chats do to
 * each other. `npm run build` comes first, as the processes are those of `dist`.
 *
 * @module
 */
import { type ChildProcess, spawn } from "node:child_process";
import { cpus } from "node:os";
import { fileURLToPath } from "node:url";
import { afterAll, beforeAll, expect, test } from "vitest";
import { table } from "../support/table.ts";

const root = fileURLToPath(new URL("../..", import.meta.url));
const MODEL = "examples/tiny-deepseek-v3";
const CHATS = 4;
const CHAT_TOKENS = 1400;
const PROMPTS = 5;
const PROMPT_TOKENS = 700;
/** Milliseconds from one prompt to the next. */
const PAUSE = 700;
const ROUNDS = 2;
const SHARED = ["--model-path", MODEL, "--port", "0", "--max-total-tokens", "16384"];
const KEY = ["--disaggregation-key", "bench"];

const running: ChildProcess[] = [];

/** A process of the command, once it has said what it must. @returns What the pattern has found. */
function started(args: readonly string[], ready: RegExp): Promise<RegExpExecArray> {
  const child = spawn(process.execPath, ["dist/wisp.js", ...args], { cwd: root });
  running.push(child);
  let said = "";
  return new Promise((resolve, reject) => {
    const take = (bytes: Buffer) => {
      said += bytes;
      const found = ready.exec(said);
      if (found !== null) resolve(found);
    };
    child.stdout.on("data", take);
    child.stderr.on("data", take);
    child.once("exit", (code) => reject(new Error(`It ended with ${code}: ${said.slice(-2000)}`)));
  });
}

const READY = /Ready: .*(http:\/\/127\.0\.0\.1:\d+)/;
const PREFILL = /decode servers are met at [^\s]*:(\d+)[\s\S]*Ready: .*(http:\/\/127\.0\.0\.1:\d+)/;

let ways: Readonly<Record<string, string>>;

beforeAll(async () => {
  const [, one] = await started(["launch_server", ...SHARED], READY);
  const [, port, prefill] = await started(
    [
      ...["launch_server", ...SHARED, ...KEY, "--disaggregation-mode", "prefill"],
      ...["--disaggregation-bootstrap-port", "0"],
    ],
    PREFILL,
  );
  const [, decode] = await started(
    [
      ...["launch_server", ...SHARED, ...KEY, "--disaggregation-mode", "decode"],
      ...[
        "--disaggregation-prefill-hosts",
        `127.0.0.1:${port}`,
        "--num-reserved-decode-tokens",
        "128",
      ],
    ],
    READY,
  );
  const [, router] = await started(
    [
      ...["launch_router", "--pd-disaggregation", "--port", "0", "--prometheus-port", "0"],
      ...["--prefill", prefill!, port!, "--decode", decode!],
    ],
    READY,
  );
  ways = { "one server": one!, "1 + 1 and a router": router! };
  while ((await fetch(`${router}/readiness`)).status !== 200) await pause(100);
  console.log(`${cpus()[0]!.model}, ${cpus().length} cores, Node ${process.versions.node}`);
}, 300_000);

afterAll(() => {
  for (const child of running) child.kill("SIGKILL");
});

const pause = (milliseconds: number) => new Promise((resolve) => setTimeout(resolve, milliseconds));

let seed = 0;

/** Milliseconds until each token of a prompt that no cache has. */
async function timesOf(url: string, prompt: number, tokens: number): Promise<readonly number[]> {
  seed += 1;
  const input_ids = Array.from({ length: prompt }, (_, i) => 3 + ((seed * 7919 + i * 31) % 900));
  const sampling_params = { temperature: 0, ignore_eos: true, max_new_tokens: tokens };
  const began = performance.now();
  const answer = await fetch(`${url}/generate`, {
    method: "POST",
    headers: { "content-type": "application/json" },
    body: JSON.stringify({ input_ids, sampling_params, stream: true }),
  });
  expect(answer.status).toBe(200);
  const times: number[] = [];
  let rest = "";
  const decoder = new TextDecoder();
  for await (const bytes of answer.body!) {
    const events = (rest + decoder.decode(bytes, { stream: true })).split("\n\n");
    rest = events.pop()!;
    const count = events.filter((event) => event.startsWith("data: {")).length;
    for (let i = 0; i < count; i++) times.push(performance.now() - began);
  }
  expect(times).toHaveLength(tokens);
  return times;
}

interface Figures {
  /** Milliseconds. */
  readonly first: readonly number[];
  readonly between: readonly number[];
}

async function measured(url: string): Promise<Figures> {
  const chats = Array.from({ length: CHATS }, () => timesOf(url, 16, CHAT_TOKENS));
  await pause(PAUSE);
  const prompts: Promise<readonly number[]>[] = [];
  for (let i = 0; i < PROMPTS; i++) {
    prompts.push(timesOf(url, PROMPT_TOKENS, 1));
    await pause(PAUSE);
  }
  const first = (await Promise.all(prompts)).map(([time]) => time!);
  const answered = await Promise.all(chats);
  const between = answered.flatMap((times) => times.slice(1).map((time, i) => time - times[i]!));
  return { first, between };
}

function percentile(values: readonly number[], share: number): string {
  const sorted = values.toSorted((a, b) => a - b);
  return sorted[Math.min(Math.floor(share * sorted.length), sorted.length - 1)]!.toFixed(1);
}

test("chats and long prompts at once", { timeout: 600_000 }, async () => {
  const all = new Map<string, { first: number[]; between: number[] }>();
  for (let round = 0; round <= ROUNDS; round++) {
    for (const [name, url] of Object.entries(ways)) {
      const { first, between } = await measured(url);
      const figures = all.get(name) ?? { first: [], between: [] };
      all.set(name, figures);
      // The first round compiles.
      if (round === 0) continue;
      figures.first.push(...first);
      figures.between.push(...between);
    }
  }
  const rows = [...all].map(([name, { first, between }]) => [
    name,
    percentile(first, 0.5),
    percentile(first, 0.99),
    percentile(between, 0.5),
    percentile(between, 0.99),
  ]);
  const header = ["", "first token, p50 ms", "p99", "between tokens, p50 ms", "p99"];
  console.log(table(header, rows));
});
