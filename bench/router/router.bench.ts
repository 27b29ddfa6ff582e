/**
 * What the router costs for a chunk of a stream, and for a request without its chunks: processor time of
 * its process, and memory, with every byte compared, beside a plain proxy of hono, and beside a pipe of Node, which is
 * what two sockets cost. Streams have their events at the same ticks, as the steps of a model make them.
 *
 * A request costs as much as some dozens of chunks, so streams of two lengths tell the two apart.
 *
 * @module
 */
import { rmSync } from "node:fs";
import { Agent, request } from "node:http";
import { cpus } from "node:os";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { build } from "vite";
import { afterAll, beforeAll, expect, test } from "vitest";
import { type MeasuredProcess, startServer } from "../serving/serve_process.ts";
import { table } from "../support/table.ts";
import { streamOf } from "./events.ts";

const root = fileURLToPath(new URL("../..", import.meta.url));
const outDir = join(root, ".cache", `route-${process.pid}`);
/** Microseconds of a chunk that the router may take beside those of its sockets. */
const MOST_OF_CHUNK = 15;
/** Chunks a second of all streams together. */
const RATE = 8000;
/** Of each kind; the least counts, as others use the machine too. */
const ROUNDS = 2;
/** Milliseconds from one event to the next of streams whose memory is looked at. */
const STANDING = 2500;
/** Streams at once, and the events of short ones and of long ones. */
const LOADS = [
  { streams: 50, lengths: [40, 360] },
  { streams: 1000, lengths: [8, 40] },
] as const;

const running: MeasuredProcess[] = [];
let script: string;
let source: MeasuredProcess;

beforeAll(async () => {
  const entry = fileURLToPath(new URL("./route_child.ts", import.meta.url));
  await build({ root, logLevel: "error", build: { ssr: entry, outDir, emptyOutDir: true } });
  script = join(outDir, "route_child.js");
  source = await started("source", {});
  console.log(`${cpus()[0]!.model}, Node ${process.versions.node}`);
});

afterAll(async () => {
  for (const one of running.reverse()) await one.close();
  rmSync(outDir, { recursive: true, force: true });
});

async function started(mode: string, options: object): Promise<MeasuredProcess> {
  const one = await startServer(script, mode, options, ["--expose-gc"]);
  running.push(one);
  return one;
}

/** One stream to its end. */
function read(url: string, agent: Agent, body: string, onFirst = () => {}): Promise<string> {
  return new Promise((resolve, reject) => {
    const headers = { "content-type": "application/json", "content-length": body.length };
    const options = { method: "POST", agent, headers };
    const outgoing = request(`${url}/v1/chat/completions`, options, (incoming) => {
      let text = "";
      incoming.setEncoding("utf8").on("data", (piece: string) => {
        if (text === "") onFirst();
        text += piece;
      });
      incoming.on("end", () => resolve(text)).on("error", reject);
    });
    outgoing.on("error", reject).end(body);
  });
}

interface Load {
  readonly streams: number;
  readonly events: number;
}

/** Microseconds of processor time for each stream. */
async function costOf(proxy: MeasuredProcess, { streams, events }: Load): Promise<number> {
  const agent = new Agent({ keepAlive: true });
  const interval = Math.round((1000 * streams) / RATE);
  const body = JSON.stringify({ streams, events, interval, messages: [] });
  const wanted = streamOf(events);
  const before = await proxy.cpuSeconds();
  const texts = await Promise.all(
    Array.from({ length: streams }, () => read(proxy.url, agent, body)),
  );
  const seconds = (await proxy.cpuSeconds()) - before;
  expect(texts.every((text) => text === wanted)).toBe(true);
  agent.destroy();
  return (1e6 * seconds) / streams;
}

/** KiB that each of so many open streams holds. */
async function heldOf(proxy: MeasuredProcess, streams: number): Promise<number> {
  const agent = new Agent({ keepAlive: true });
  const body = JSON.stringify({ streams, events: 2, interval: STANDING, messages: [] });
  const before = await proxy.held();
  let begun = 0;
  let onAll = () => {};
  const all = new Promise<void>((resolve) => {
    onAll = resolve;
  });
  const onFirst = () => {
    begun += 1;
    if (begun === streams) onAll();
  };
  const texts = Array.from({ length: streams }, () => read(proxy.url, agent, body, onFirst));
  await all;
  const held = await proxy.held();
  expect((await Promise.all(texts)).every((text) => text === streamOf(2))).toBe(true);
  agent.destroy();
  return (held - before) / streams / 2 ** 10;
}

test("a chunk costs little, and a thousand streams little memory", async () => {
  const urls = [source.url];
  const args = ["--max-concurrent-requests", "2000", "--policy", "cache_aware"];
  const proxies = {
    "pipe of Node": await started("pipe", { urls }),
    "plain proxy of hono": await started("hono", { urls }),
    router: await started("router", { urls, args }),
  };
  const rows: string[][] = [];
  const ofChunk = new Map<string, number>();
  for (const { streams, lengths } of LOADS) {
    const [short, long] = lengths;
    for (const [name, proxy] of Object.entries(proxies)) {
      const least = [Number.POSITIVE_INFINITY, Number.POSITIVE_INFINITY];
      for (let round = 0; round <= ROUNDS; round++) {
        for (const [i, events] of lengths.entries()) {
          const cost = await costOf(proxy, { streams, events });
          // The first compiles.
          if (round > 0) least[i] = Math.min(least[i]!, cost);
        }
      }
      const chunk = (least[1]! - least[0]!) / (long - short);
      ofChunk.set(`${name} ${streams}`, chunk);
      const memory = (await proxy.memory()) / 2 ** 20;
      const held = await heldOf(proxy, streams);
      rows.push([
        ...[String(streams), name, chunk.toFixed(1), (least[0]! - short * chunk).toFixed(0)],
        ...[memory.toFixed(0), held.toFixed(1)],
      ]);
    }
  }
  const columns = [
    "streams",
    "",
    "us of a chunk",
    "us of a request",
    "MiB",
    "KiB held by a stream",
  ];
  console.log(table(columns, rows));
  for (const { streams } of LOADS) {
    const router = ofChunk.get(`router ${streams}`)!;
    expect(router - ofChunk.get(`pipe of Node ${streams}`)!).toBeLessThan(MOST_OF_CHUNK);
    expect(router).toBeLessThan(ofChunk.get(`plain proxy of hono ${streams}`)!);
  }
}, 600_000);
