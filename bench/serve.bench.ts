/**
 * Streams over a socket: what the server adds to a model, by how many run at the same time.
 *
 * Chunks for each second of the server's processor time are what other load on the machine changes
 * least. Latencies are the client's; of a server at its limits they tell how long its queues are, so
 * the null model also runs with steps that take as long as a model's.
 *
 * The aims: 20,000 chunks for a second of processor time, and between tokens, where steps take their
 * time, a 99th percentile within three times the median.
 *
 * @module
 */
import "./support/driver_threads.ts";
import { Agent } from "node:http";
import { afterAll, afterEach, beforeAll, expect, test } from "vitest";
import { type TrafficBackendName, trafficBackend } from "../src/node/traffic/backends.ts";
import { randomNumbers, randomTokens } from "../src/node/traffic/random_prompts.ts";
import { runTraffic } from "../src/node/traffic/run_traffic.ts";
import { streamedRequest } from "../src/node/traffic/streamed_request.ts";
import { summarize, type TrafficSummary } from "../src/node/traffic/traffic_report.ts";
import { EMBEDDED_MODEL } from "../test/support/checkpoints/embedded_model.ts";
import { nullToken } from "./serving/null_token.ts";
import {
  buildServer,
  type MeasuredProcess,
  removeServers,
  type ServedModel,
  startServer,
} from "./serving/serve_process.ts";
import { table } from "./support/table.ts";

const STREAMS = [1, 8, 32, 128];
const MOST = Math.max(...STREAMS);
/** Milliseconds of a step where a server is not to be driven to its limits. */
const STEP_MS = 10;
const PROMPTS = 8;
const PROMPT_TOKENS = 16;

const random = randomNumbers(1);
const prompts = Array.from({ length: PROMPTS }, () => randomTokens(PROMPT_TOKENS, random));
/** Words in place of the tokens, for chats. */
const chats = prompts.map((tokens) => tokens.map((token) => token.toString(36)).join(" "));

const scripts = {} as Record<ServedModel, string>;
const running: MeasuredProcess[] = [];

beforeAll(async () => {
  for (const model of ["null", "real"] as const) scripts[model] = await buildServer(model);
}, 120_000);
afterEach(async () => {
  for (const server of running.splice(0)) await server.close();
});
afterAll(removeServers);

async function start(...started: Parameters<typeof startServer>): Promise<MeasuredProcess> {
  const server = await startServer(...started);
  running.push(server);
  return server;
}

interface Measured extends TrafficSummary {
  readonly cpuSeconds: number;
}

interface Client {
  /** Tokens of an answer. */
  readonly length: number;
  readonly backend: TrafficBackendName;
  /** Further fields of each request. */
  readonly extra?: Readonly<Record<string, unknown>>;
}

/** Requests by their number. */
type Send = (number: number) => ReturnType<typeof streamedRequest>;

function client(server: MeasuredProcess, { length, backend: name, extra }: Client): Send {
  const backend = trafficBackend(name);
  const agent = new Agent({ keepAlive: true });
  const contents = backend.takesTokens ? prompts : chats;
  const bodies = contents.map((content) =>
    backend.body({ content, maxNewTokens: length }, { model: "m", ignoreEos: true, extra }),
  );
  const options = { backend, baseUrl: server.url, agent, timeout: 60_000 };
  return (number) => streamedRequest(bodies[number % PROMPTS]!, options);
}

/** A load of `count` requests; every answer must be `expected` of its prompt. */
async function measure(
  server: MeasuredProcess,
  send: Send,
  {
    streams,
    count,
    expected,
  }: { readonly streams: number; readonly count: number; readonly expected: readonly string[] },
): Promise<Measured> {
  const numbers = Array.from({ length: count }, (_, i) => i);
  const before = await server.cpuSeconds();
  const load = { requestRate: Number.POSITIVE_INFINITY, maxConcurrency: streams, random };
  const result = await runTraffic(numbers, send, load);
  const cpuSeconds = (await server.cpuSeconds()) - before;
  expect(result.failures).toEqual([]);
  result.records.forEach(({ text }, i) => {
    expect(text).toBe(expected[i % PROMPTS]);
  });
  return { ...summarize(result), cpuSeconds };
}

const HEADER = [
  "streams",
  "requests/s",
  "chunks/s",
  "chunks/s of CPU",
  "to hono's",
  "TTFT p50, ms",
  "p99",
  "between tokens p50, ms",
  "p99",
];

/** Chunks for each second of processor time of hono's own stream, by the streams. */
const reference = new Map<number, number>();

interface Loads {
  readonly title: string;
  readonly length: number;
  /** How many requests there are for so many streams. */
  readonly requests: (streams: number) => number;
  readonly expected: readonly string[];
}

/** Loads of more and more streams at once, as a table. */
async function compare(
  server: MeasuredProcess,
  send: Send,
  { title, length, requests, expected }: Loads,
): Promise<void> {
  const rows: string[][] = [];
  for (const streams of STREAMS) {
    const count = requests(streams);
    const measured = await measure(server, send, { streams, count, expected });
    const chunks = count * length;
    const rate = chunks / measured.cpuSeconds;
    if (!reference.has(streams)) reference.set(streams, rate);
    const { timeToFirstToken: first, interToken: next } = measured;
    rows.push([
      `${streams}`,
      measured.requestThroughput.toFixed(1),
      (chunks / measured.duration).toFixed(0),
      rate.toFixed(0),
      (rate / reference.get(streams)!).toFixed(2),
      first.median.toFixed(1),
      first.p99.toFixed(1),
      next.median.toFixed(2),
      next.p99.toFixed(2),
    ]);
  }
  console.log(`${title}, answers of ${length} tokens`);
  console.log(table(HEADER, rows));
}

/** One event of a chat as the server writes it: what the reference sends. */
const EVENT = JSON.stringify({
  id: "0".repeat(32),
  object: "chat.completion.chunk",
  created: 1_800_000_000,
  model: "m",
  choices: [
    {
      index: 0,
      delta: { role: null, content: " word", reasoning_content: null, tool_calls: null },
      logprobs: null,
      finish_reason: null,
      matched_stop: null,
    },
  ],
  usage: null,
});

const LENGTH = 128;
const requests = (streams: number) => Math.max(4 * streams, 32);
const WARM_UP = { streams: 32, count: 256 };

/** What each prompt is answered alone. */
async function answersAlone(send: Send): Promise<string[]> {
  const texts: string[] = [];
  for (let i = 0; i < PROMPTS; i++) texts.push((await send(i)).text);
  return texts;
}

// The first test: the others are compared with it.
test("hono's own stream of as many events", async () => {
  const server = await start(scripts.null, "echo", {});
  const extra = { events: [EVENT] };
  const send = client(server, { backend: "openai-chat", length: LENGTH, extra });
  const expected = Array.from({ length: PROMPTS }, () => " word".repeat(LENGTH));
  await measure(server, send, { ...WARM_UP, expected });
  await compare(server, send, { title: "hono's streamSSE", length: LENGTH, requests, expected });
}, 300_000);

test.each(["openai-chat", "native"] as const)(
  "a null model as fast as it can, %s",
  async (backend) => {
    const options = { model: EMBEDDED_MODEL, maxRunningRequests: MOST };
    const server = await start(scripts.null, "model", options);
    const send = client(server, { backend, length: LENGTH });
    const expected = await answersAlone(send);
    if (backend === "native") {
      const ids = Array.from({ length: LENGTH }, (_, i) => nullToken(PROMPT_TOKENS + i));
      const said = await textOf(server, ids);
      expect(expected).toEqual(prompts.map(() => said));
    }
    await measure(server, send, { ...WARM_UP, expected });
    const title = `null model, ${backend}`;
    await compare(server, send, { title, length: LENGTH, requests, expected });
  },
  300_000,
);

/** The text of tokens, as the server's tokenizer has it. */
async function textOf({ url }: MeasuredProcess, tokens: readonly number[]): Promise<string> {
  const response = await fetch(`${url}/detokenize`, {
    method: "POST",
    headers: { "content-type": "application/json" },
    body: JSON.stringify({ tokens }),
  });
  return ((await response.json()) as { readonly text: string }).text;
}

test("a null model with steps that take as long as a model's", async () => {
  const length = 512;
  const options = { model: EMBEDDED_MODEL, maxRunningRequests: MOST, stepMs: STEP_MS };
  const server = await start(scripts.null, "model", options);
  const send = client(server, { backend: "openai-chat", length });
  const expected = await answersAlone(send);
  const title = `null model, openai-chat, steps of ${STEP_MS} ms`;
  // All at once, so that no prompt holds up what is decoded.
  await compare(server, send, { title, length, requests: (streams) => streams, expected });
}, 300_000);

test("the embedded model behind a socket", async () => {
  const length = 32;
  const options = { model: EMBEDDED_MODEL, maxRunningRequests: 32, maxTotalTokens: 8192 };
  const server = await start(scripts.real, "model", options);
  const send = client(server, { backend: "openai-chat", length });
  const expected = await answersAlone(send);
  const requests = (streams: number) => Math.max(streams, 8);
  const title = "embedded model, openai-chat, 32 decoded together";
  await compare(server, send, { title, length, requests, expected });
}, 500_000);
