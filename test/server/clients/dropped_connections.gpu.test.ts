/**
 * Connections that are opened and dropped in the middle of a stream, beside others that are not: these
 * get the very bits that they get alone, and no page or listener of the dropped ones is left.
 */
import { EventEmitter } from "node:events";
import { afterAll, beforeAll, describe, expect, test, vi } from "vitest";
import type { Engine } from "../../../src/engine/engine.ts";
import { type RunningServer, serve } from "../../../src/node/serve/http.ts";
import { createApp } from "../../../src/server/app.ts";
import { smallestCaseOnly } from "../../support/devices/gpu.ts";
import { openEngine } from "../../support/engines/engine.ts";
import { pick, randomSource } from "../../support/server/hostile_requests.ts";
import { eventLines } from "../../support/server/http_client.ts";
import { open } from "../../support/server/raw_client.ts";
import { until } from "../../support/until.ts";

const DROPPED = process.env.WISP_TEST_FULL === "1" ? 200 : 16;
/** Of them at a time. */
const CLIENTS = 8;

const STEADY = ["Once upon a time", "What is the capital of Japan?", "1, 2, 3,"];
const WORDS = ["red", "fox", "Once", " upon", "the", "7", "\n", "日本", "tree"];

let engine: Engine;
let server: RunningServer;
/** Tells of each chunk that the engine makes for any client: the clock of those that wait for nothing. */
const made = new EventEmitter();
const onWarning = vi.fn();
const reportError = vi.fn();

/** Everything that a stream tells, but for its id and times. */
async function steadyAnswer(text: string, seed: number): Promise<unknown> {
  const sampling_params = { max_new_tokens: 12, ignore_eos: true, sampling_seed: seed };
  const body = { text, sampling_params, stream: true, return_logprob: true, top_logprobs_num: 3 };
  const response = await fetch(`${server.url}/generate`, {
    method: "POST",
    headers: { "content-type": "application/json" },
    body: JSON.stringify(body),
  });
  const lines = await eventLines(response);
  const { output_ids, meta_info } = JSON.parse(lines.at(-2)!) as {
    output_ids: unknown;
    meta_info: Record<string, unknown>;
  };
  return [output_ids, meta_info.output_token_logprobs, meta_info.output_top_logprobs];
}

/** A stream that its client leaves after a while; `/generate` and chats, one answer or several. */
async function drop(random: () => number): Promise<void> {
  const text = Array.from({ length: 1 + random() * 30 }, () => pick(WORDS, random)).join("");
  const max = 400;
  const [path, body] = pick(
    [
      ["/generate", { text, sampling_params: { max_new_tokens: max, ignore_eos: true } }],
      ["/generate", { text: [text, "a"], sampling_params: { max_new_tokens: max, n: 2 } }],
      [
        "/v1/chat/completions",
        { messages: [{ role: "user", content: text }], max_tokens: max, ignore_eos: true },
      ],
      ["/v1/completions", { prompt: text, max_tokens: max, logprobs: 2, ignore_eos: true }],
    ] as const,
    random,
  );
  const content = Buffer.from(JSON.stringify({ ...body, stream: random() < 0.8 }));
  const socket = await open(Number(new URL(server.url).port));
  socket.write(
    `POST ${path} HTTP/1.1\r\nhost: x\r\ncontent-type: application/json\r\ncontent-length: ${content.length}\r\n\r\n`,
  );
  socket.write(content);
  let events = Math.floor(random() * 6);
  // Without a stream nothing comes: then the client leaves after so many chunks of all clients.
  let chunks = 1 + Math.floor(random() * 200);
  await new Promise<void>((resolve) => {
    const leave = () => {
      made.off("chunk", onChunk);
      resolve();
    };
    const onChunk = () => {
      if (--chunks <= 0) leave();
    };
    made.on("chunk", onChunk);
    socket.on("data", () => {
      if (--events <= 0) leave();
    });
  });
  if (random() < 0.5) socket.destroy();
  else socket.resetAndDestroy();
}

describe.skipIf(smallestCaseOnly)("a server", () => {
  beforeAll(async () => {
    process.on("warning", onWarning);
    engine = await openEngine({ maxRunningRequests: 8 });
    const generate = engine.generate.bind(engine);
    vi.spyOn(engine, "generate").mockImplementation(async function* (request) {
      for await (const chunk of generate(request)) {
        made.emit("chunk");
        yield chunk;
      }
      return undefined;
    });
    server = await serve(createApp(engine, { reportError }), { host: "127.0.0.1", port: 0 });
  });
  afterAll(async () => {
    process.off("warning", onWarning);
    await engine.close();
  });

  test(`${DROPPED} dropped connections change no bit of other answers`, async () => {
    const alone: unknown[] = [];
    for (const [i, text] of STEADY.entries()) alone.push(await steadyAnswer(text, i));
    let isOver = false;
    let compared = 0;
    const steady = STEADY.map(async (text, i) => {
      do {
        expect(await steadyAnswer(text, i)).toEqual(alone[i]);
        compared++;
      } while (!isOver);
    });
    const dropping = Array.from({ length: CLIENTS }, async (_, client) => {
      const random = randomSource(500 + client);
      for (let i = 0; i < DROPPED / CLIENTS; i++) await drop(random);
    });
    await Promise.all(dropping);
    isOver = true;
    await Promise.all(steady);
    expect(compared).toBeGreaterThanOrEqual(STEADY.length);

    await until(() =>
      expect(engine.status()).toMatchObject({ runningRequests: 0, queuedRequests: 0 }),
    );
    expect(engine.status()).toMatchObject({ healthy: true, usedTokens: 0, queuedTokens: 0 });
    expect(await engine.flushCache()).toBe(true);
    expect(engine.status().cachedTokens).toBe(0);
    for (const [i, text] of STEADY.entries()) expect(await steadyAnswer(text, i)).toEqual(alone[i]);
    // Resolves when no connection is left.
    await server.close();
    expect(reportError).not.toHaveBeenCalled();
    expect(onWarning).not.toHaveBeenCalled();
  });
});
