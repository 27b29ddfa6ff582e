/**
 * Random messages to a server over sockets, cut at random bytes, while known requests go on beside
 * them.
 *
 * @module
 */
import { expect, vi } from "vitest";
import type { GenerationEngine } from "../../../src/generation.ts";
import { serve } from "../../../src/node/serve/http.ts";
import { type AppOptions, createApp } from "../../../src/server/app.ts";
import { hostileBody, pick, randomSource, TEMPLATES } from "./hostile_requests.ts";
import { hostileMessage } from "./hostile_sockets.ts";
import { eventLines } from "./http_client.ts";
import { cutAnywhere, exchange } from "./raw_client.ts";

export interface FuzzOptions extends AppOptions {
  readonly cases: number;
  readonly seed: number;
  /** A streamed body of `/generate` whose answer must never change. */
  readonly known: object;
}

/** All but the endpoint that ends the requests of others, which are looked at here. */
const ENDPOINTS = TEMPLATES.filter(([path]) => path !== "/abort_request");
/** Connections at a time. */
const CLIENTS = 8;
/** Milliseconds that a client with a torn message waits. */
const PATIENCE = 30;
/** Messages of a client from one known request to the next. */
const INTERVAL = 50;

/**
 * Expects that no answer is a 500, that none is missing, that the known request is answered with the
 * same bits every time, and that no connection or warning is left.
 *
 * @returns How often each status came.
 */
export async function fuzzServer(
  engine: GenerationEngine,
  { cases, seed, known, ...options }: FuzzOptions,
): Promise<ReadonlyMap<number | undefined, number>> {
  const reportError = vi.fn();
  const onWarning = vi.fn();
  process.on("warning", onWarning);
  const app = createApp(engine, { maxBodyBytes: 20_000, ...options, reportError });
  const server = await serve(app, { host: "127.0.0.1", port: 0 });
  const port = Number(new URL(server.url).port);
  const answer = await knownAnswer(server.url, known);
  const statuses = new Map<number | undefined, number>();
  const client = async (random: () => number, name: string) => {
    for (let i = 0; i < cases / CLIENTS; i++) {
      const [path, template] = pick(ENDPOINTS, random);
      const { bytes, isTorn } = hostileMessage(path, hostileBody(template, random), random);
      const pieces = cutAnywhere(bytes, Math.floor(random() * 6), random);
      const { status, text } = await exchange(port, pieces, isTorn ? PATIENCE : undefined);
      const message = `${name}, message ${i}: ${Buffer.from(bytes).toString("latin1")}\n-> ${text}`;
      if (!isTorn) expect(status, message).toBeDefined();
      expect(status ?? 400, message).toBeLessThan(500);
      statuses.set(status, (statuses.get(status) ?? 0) + 1);
      if (i % INTERVAL === 0) expect(await knownAnswer(server.url, known)).toEqual(answer);
    }
  };
  await Promise.all(
    Array.from({ length: CLIENTS }, (_, i) => client(randomSource(seed + i), `seed ${seed + i}`)),
  );
  expect(await knownAnswer(server.url, known)).toEqual(answer);
  // Resolves when no connection is left.
  await server.close();
  process.off("warning", onWarning);
  expect(reportError).not.toHaveBeenCalled();
  expect(onWarning).not.toHaveBeenCalled();
  return statuses;
}

/** Every event of the stream, but for ids and times. */
async function knownAnswer(url: string, body: object): Promise<readonly unknown[]> {
  const headers = { "content-type": "application/json" };
  const init = { method: "POST", headers, body: JSON.stringify({ ...body, stream: true }) };
  const lines = await eventLines(await fetch(`${url}/generate`, init));
  return lines.slice(0, -1).map((line) => {
    const { text, output_ids, meta_info } = JSON.parse(line) as Record<string, object>;
    const { id, e2e_latency, cached_tokens, ...told } = meta_info as Record<string, unknown>;
    return { text, output_ids, told };
  });
}
