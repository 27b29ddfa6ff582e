import { mkdtempSync, readFileSync, rmSync } from "node:fs";
import { createServer, type RequestListener, type Server } from "node:http";
import type { AddressInfo } from "node:net";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { setTimeout as sleep } from "node:timers/promises";
import { afterEach, describe, expect, test } from "vitest";
import { type RunningServer, serve } from "../../../src/node/serve/http.ts";
import {
  learnTextLength,
  randomNumbers,
  randomPrompts,
  randomTokens,
} from "../../../src/node/traffic/random_prompts.ts";
import { runTraffic } from "../../../src/node/traffic/run_traffic.ts";
import type { RequestRecord } from "../../../src/node/traffic/streamed_request.ts";
import { quantile, summarize } from "../../../src/node/traffic/traffic_report.ts";
import { createApp } from "../../../src/server/app.ts";
import { ScriptedEngine } from "../../support/engines/scripted_engine.ts";
import { startCommand } from "../../support/package/run_command.ts";

const closers: (() => unknown)[] = [];
afterEach(async () => {
  for (const close of closers.splice(0)) await close();
});

async function listen(engine = new ScriptedEngine(), apiKey?: string): Promise<RunningServer> {
  const app = createApp(engine, { servedModelName: "tiny", ...(apiKey && { apiKey }) });
  const server = await serve(app, { host: "127.0.0.1", port: 0 });
  closers.push(() => server.close());
  return server;
}

/** A server that is no such server. */
async function listenBroken(listener: RequestListener): Promise<string> {
  const server: Server = createServer(listener);
  await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
  closers.push(() => {
    server.closeAllConnections();
    server.close();
  });
  return `http://127.0.0.1:${(server.address() as AddressInfo).port}`;
}

async function bench(url: string, ...args: string[]) {
  const command = startCommand(["bench_serving", "--base-url", url, ...args]);
  const code = await command.code;
  const figure = (label: string) => {
    const found = new RegExp(`^${label.replace(/[()/.]/g, "\\$&")}: +(\\S+)$`, "m");
    return Number(found.exec(command.stdout())?.[1]);
  };
  return { code, figure, stdout: command.stdout(), stderr: command.stderr() };
}

const small = "--num-prompts 6 --random-input-len 9 --random-output-len 5".split(" ");

describe("wisp bench_serving", () => {
  test.each(["native", "openai", "openai-chat"])("measures a server, %s", async (backend) => {
    const engine = new ScriptedEngine({ script: () => ({ gate: () => sleep(2) }) });
    const { url } = await listen(engine);
    const { code, figure, stdout, stderr } = await bench(url, "--backend", backend, ...small);
    expect(stderr).toBe(`Sending 6 requests to ${url}\n`);
    expect(code).toBe(0);
    expect(figure("Successful requests")).toBe(6);
    expect(figure("Failed requests")).toBe(0);
    expect(figure("Total generated tokens")).toBe(30);
    if (backend !== "openai-chat") expect(figure("Total input tokens")).toBe(54);
    for (const name of ["TTFT", "TPOT", "ITL", "E2E Latency"]) {
      for (const kind of ["Mean", "Median", "P99"]) {
        expect(figure(`${kind} ${name} (ms)`), `${kind} ${name}`).toBeGreaterThan(0);
      }
    }
    expect(figure("Output token throughput (tok/s)")).toBeGreaterThan(0);
    expect(stdout).toMatch(/^=+ Serving Benchmark Result =+\n/);
    for (const { sampling } of engine.requests.slice(-6)) {
      expect(sampling).toMatchObject({ maxNewTokens: 5, ignoreEos: true });
    }
  });

  test("sends the same prompts for the same seed, and others for another", async () => {
    const engine = new ScriptedEngine();
    const { url } = await listen(engine);
    const sent: string[] = [];
    for (const seed of ["1", "1", "2"]) {
      engine.requests.length = 0;
      await bench(url, ...small, "--seed", seed, "--random-range-ratio", "0.5");
      // They are sent at once, and connections come in any order.
      sent.push(
        engine.requests
          .map(({ tokens, sampling }) => JSON.stringify([tokens, sampling]))
          .sort()
          .join("\n"),
      );
    }
    expect(sent[1]).toBe(sent[0]);
    expect(sent[2]).not.toBe(sent[0]);
  });

  test("runs so many requests at once at most", async () => {
    let most = 0;
    const engine = new ScriptedEngine({
      script: () => ({
        gate: async () => {
          most = Math.max(most, engine.running.length);
          await sleep(2);
        },
      }),
    });
    const { url } = await listen(engine);
    const { code } = await bench(url, ...small, "--max-concurrency", "2");
    expect(code).toBe(0);
    expect(most).toBe(2);
  });

  test("sends fields of the user's, the key, and no ignore_eos where it is not wanted", async () => {
    const engine = new ScriptedEngine();
    const { url } = await listen(engine, "secret");
    const fields = ["--extra-request-body", '{"top_p": 0.5, "max_tokens": 3}'];
    const more = [...fields, "--disable-ignore-eos", "--api-key", "secret", "--flush-cache"];
    const { code, figure } = await bench(url, "--backend", "openai", ...small, ...more);
    expect(code).toBe(0);
    expect(figure("Total generated tokens")).toBe(18);
    expect(engine.requests[0]!.sampling).toMatchObject({ topP: 0.5, maxNewTokens: 3 });
    expect(engine.requests[0]!.sampling!.ignoreEos ?? false).toBe(false);
    const refused = await bench(url, "--backend", "openai", ...small);
    expect(refused.code).toBe(1);
    expect(refused.stderr).toContain("/v1/models: it answers 401");
  });

  test("appends options and figures to a file, without the key", async () => {
    const { url } = await listen();
    const folder = mkdtempSync(join(tmpdir(), "wisp-load-"));
    closers.push(() => rmSync(folder, { recursive: true }));
    const file = join(folder, "runs.jsonl");
    for (const _ of [1, 2]) {
      await bench(url, ...small, "--output-file", file, "--api-key", "secret", "--model", "m");
    }
    const text = readFileSync(file, "utf8");
    expect(text).not.toContain("secret");
    const [first, second, ...rest] = text.trim().split("\n");
    expect(JSON.parse(first!)).toMatchObject({
      ...{ backend: "native", model: "m", numPrompts: 6, completed: 6, failed: 0 },
      ...{ inputTokens: 54, outputTokens: 30, timeToFirstToken: { mean: expect.any(Number) } },
    });
    expect(JSON.parse(second!).completed).toBe(6);
    expect(rest).toEqual([]);
  });

  test("--help lists the options", async () => {
    const command = startCommand(["bench_serving", "--help"]);
    expect(await command.code).toBe(0);
    expect(command.stdout()).toContain("--random-input-len N");
  });

  test.each([
    [["--num-promts", "3"], "did you mean --num-prompts?"],
    [["--request-rate", "0"], "must be a number above 0, or inf"],
    [["--request-rate", "fast"], "must be a number above 0, or inf"],
    [["--base-url", "localhost:1"], "must be an address"],
    [["--backend", "other"], "it must be native, openai or openai-chat"],
    [["--dataset-name", "other"], "it must be random"],
    [["surplus"], 'Cannot use argument "surplus"'],
  ])("%j ends with 2", async (args, message) => {
    const command = startCommand(["bench_serving", ...args]);
    expect(await command.code).toBe(2);
    expect(command.stderr()).toContain(message);
  });
});

describe("wisp bench_serving on a server that is broken", () => {
  const events = (...lines: string[]) => lines.map((line) => `data: ${line}\n\n`).join("");
  const token = (count: number) =>
    JSON.stringify({ text: "a", meta_info: { prompt_tokens: 1, completion_tokens: count } });

  test.each<readonly [string, RequestListener, string]>([
    ["refuses", (_, response) => response.writeHead(503).end("full"), "status 503: full"],
    [
      "tells of an error within the stream",
      (_, response) => response.end(events(token(1), '{"error": {"message": "lost"}}', "[DONE]")),
      'an event tells of an error: {"error": {"message": "lost"}}',
    ],
    [
      "ends the stream too early",
      (_, response) => response.end(events(token(1))),
      "the stream ended without [DONE]",
    ],
    [
      "sends no token",
      (_, response) => response.end(events("[DONE]")),
      "the stream ended without a token",
    ],
    ["sends what is no JSON", (_, response) => response.end(events("{")), "JSON"],
    [
      "cuts the connection",
      (_, response) => {
        response.write(events(token(1)));
        setTimeout(() => response.destroy(), 5);
      },
      "aborted",
    ],
    ["cuts it at once", ({ socket }) => socket.destroy(), "socket hang up"],
    ["never answers", () => {}, "nothing came for 0.05 s"],
  ])("that %s: every failure is counted and told", async (_, listener, reason) => {
    const url = await listenBroken(listener);
    // A busy machine may take its time to tell of the others.
    const timeout = reason.startsWith("nothing came") ? "0.05" : "10";
    const more = ["--warmup-requests", "0", "--timeout", timeout];
    const { code, figure, stderr } = await bench(url, ...small, ...more);
    expect(code).toBe(1);
    expect(figure("Successful requests")).toBe(0);
    expect(figure("Failed requests")).toBe(6);
    expect(stderr).toContain("6 of 6 requests failed:\n  6 x ");
    expect(stderr).toContain(reason);
  });

  test("only sometimes: the rest is measured", async () => {
    let requests = 0;
    const url = await listenBroken((_, response) => {
      if (requests++ % 3 === 1) response.writeHead(500).end("oops");
      else response.end(events(token(1), token(3), "[DONE]"));
    });
    const { code, figure, stderr } = await bench(url, ...small, "--warmup-requests", "0");
    expect(code).toBe(1);
    expect(figure("Successful requests")).toBe(4);
    expect(figure("Failed requests")).toBe(2);
    expect(figure("Total generated tokens")).toBe(12);
    expect(stderr).toContain("2 of 6 requests failed:\n  2 x status 500: oops");
  });

  test("by closing connections that no request uses: nothing has failed", async () => {
    const used = new WeakSet<object>();
    const url = await listenBroken(({ socket }, response) => {
      if (used.has(socket)) socket.destroy();
      else response.end(events(token(1), "[DONE]"));
      used.add(socket);
    });
    const { code, figure } = await bench(url, ...small, "--max-concurrency", "1");
    expect(code).toBe(0);
    expect(figure("Successful requests")).toBe(6);
  });

  test("no server listens: the load is not begun", async () => {
    const url = await listenBroken(() => {});
    for (const close of closers.splice(0)) await close();
    const { code, stdout, stderr } = await bench(url, ...small);
    expect(code).toBe(1);
    expect(stdout).toBe("");
    expect(stderr).toContain("Cannot measure: the first request failed: connect ECONNREFUSED");
  });
});

const record = (gaps: readonly number[], promptTokens = 10): RequestRecord => ({
  promptTokens,
  completionTokens: gaps.length + 1,
  timeToFirstToken: 20,
  interTokenLatencies: gaps,
  endToEndLatency: 20 + gaps.reduce((sum, gap) => sum + gap, 0),
  text: "",
});

test("summarize adds up tokens and takes the quantiles of each latency", () => {
  const records = [record([1, 3]), record([5]), record([])];
  const summary = summarize({ records, failures: ["x"], duration: 2 });
  expect(summary).toMatchObject({
    ...{ completed: 3, failed: 1, inputTokens: 30, outputTokens: 6 },
    ...{ requestThroughput: 1.5, inputThroughput: 15, outputThroughput: 3 },
    timePerOutputToken: { mean: 3.5, median: 3.5 },
    interToken: { mean: 3, median: 3 },
    timeToFirstToken: { mean: 20, median: 20, p99: 20 },
    endToEnd: { mean: 23, median: 24 },
  });
  expect(summary.concurrency).toBeCloseTo(0.069 / 2);
});

test("quantile lies between two values where it has to", () => {
  expect(quantile([1, 2, 3, 4], 0.5)).toBe(2.5);
  expect(quantile([0, 100], 0.99)).toBeCloseTo(99);
  expect(quantile([], 0.5)).toBe(0);
});

test("randomPrompts keeps to its lengths and to ordinary tokens", () => {
  const options = { count: 200, inputLength: 40, outputLength: 8, content: randomTokens };
  const prompts = randomPrompts({ ...options, rangeRatio: 0.25, random: randomNumbers(3) });
  const lengths = new Set(prompts.map(({ content }) => content.length));
  expect(Math.min(...lengths)).toBe(10);
  expect(Math.max(...lengths)).toBe(40);
  expect(new Set(prompts.map(({ maxNewTokens }) => maxNewTokens))).toEqual(
    new Set([2, 3, 4, 5, 6, 7, 8]),
  );
  const tokens = prompts.flatMap(({ content }) => content as readonly number[]);
  expect(Math.min(...tokens)).toBeGreaterThanOrEqual(300);
  expect(Math.max(...tokens)).toBeLessThan(1000);
});

test("learnTextLength allows for a template and for words of several tokens", async () => {
  const count = async (text: string) => 7 + 2 * text.split(" ").length;
  const content = await learnTextLength(count, randomNumbers(1));
  for (const wanted of [9, 51, 101]) {
    expect(await count(content(wanted, randomNumbers(2)) as string)).toBe(wanted);
  }
});

test("runTraffic sends at the rate that it is given, on average", async () => {
  const requests = Array.from({ length: 200 }, (_, i) => i);
  const options = { requestRate: 1000, random: randomNumbers(1) };
  const { records, duration } = await runTraffic(requests, async () => record([]), options);
  expect(records).toHaveLength(200);
  expect(duration).toBeGreaterThan(0.15);
});
