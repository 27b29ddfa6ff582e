/**
 * Random bodies and headers over real connections, cut at random bytes: no answer is a 500, the
 * server goes on, and nothing is left of any request.
 */
import { expect, test, vi } from "vitest";
import { serve } from "../../src/node/http.ts";
import { createApp } from "../../src/server/app.ts";
import { hostileBody, pick, randomSource, TEMPLATES } from "../support/hostile_requests.ts";
import { hostileMessage } from "../support/hostile_sockets.ts";
import { cutAnywhere, exchange } from "../support/raw_client.ts";
import { ScriptedEngine } from "../support/scripted_engine.ts";

const CASES = process.env.WISP_TEST_FULL === "1" ? 20_000 : 400;
/** All but the endpoint that ends the requests of others, which are looked at here. */
const ENDPOINTS = TEMPLATES.filter(([path]) => path !== "/abort_request");
/** Connections at a time. */
const CLIENTS = 8;
/** Milliseconds that a client with a torn message waits. */
const PATIENCE = 30;

test(`${CASES} random messages over sockets`, async () => {
  const reportError = vi.fn();
  const onWarning = vi.fn();
  process.on("warning", onWarning);
  const engine = new ScriptedEngine({ model: { thinkingVariables: ["thinking"] } });
  const app = createApp(engine, {
    reportError,
    maxBodyBytes: 20_000,
    toolCallParser: "qwen25",
    reasoningParser: "qwen3",
  });
  const server = await serve(app, { host: "127.0.0.1", port: 0 });
  const port = Number(new URL(server.url).port);
  const known = { text: "known", sampling_params: { max_new_tokens: 12 } };
  const ask = async () => {
    const headers = { "content-type": "application/json" };
    const init = { method: "POST", headers, body: JSON.stringify(known) };
    const { text } = (await (await fetch(`${server.url}/generate`, init)).json()) as {
      text: string;
    };
    return text;
  };
  const answer = await ask();
  const statuses = new Map<number | undefined, number>();
  const client = async (seed: number) => {
    const random = randomSource(seed);
    for (let i = 0; i < CASES / CLIENTS; i++) {
      const [path, template] = pick(ENDPOINTS, random);
      const { bytes, isTorn } = hostileMessage(path, hostileBody(template, random), random);
      const cuts = Math.floor(random() * 6);
      const pieces = cutAnywhere(bytes, cuts, random);
      const { status, text } = await exchange(port, pieces, isTorn ? PATIENCE : undefined);
      const message = `seed ${seed}, message ${i}: ${Buffer.from(bytes).toString("latin1")}`;
      if (!isTorn) expect(status, message).toBeDefined();
      expect(status ?? 400, `${message}\n-> ${text}`).toBeLessThan(500);
      statuses.set(status, (statuses.get(status) ?? 0) + 1);
      if (i % 50 === 0) expect(await ask()).toBe(answer);
    }
  };
  await Promise.all(Array.from({ length: CLIENTS }, (_, i) => client(1000 + i)));
  await vi.waitFor(() => expect(engine.running).toEqual([]));
  expect(reportError).not.toHaveBeenCalled();
  expect(statuses.get(200)).toBeGreaterThan(CASES / 20);
  expect(statuses.get(400)).toBeGreaterThan(CASES / 20);
  // No connection is left that would hold it open.
  await server.close();
  process.off("warning", onWarning);
  expect(onWarning).not.toHaveBeenCalled();
});
