/**
 * What the router costs for a chunk of a stream: processor time of its process, with every byte
 * compared, beside a plain proxy of hono, and beside a pipe of Node, which is what two sockets cost.
 * Streams have their events at the same ticks, as the steps of a model make them.
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
const RATE = 4000;
/** Of each kind; the least counts, as others use the machine too. */
const ROUNDS = 2;
const LOADS = [
  { streams: 50, events: 160 },
  { streams: 1000, events: 16 },
];

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
  const one = await startServer(script, mode, options);
  running.push(one);
  return one;
}

/** One stream to its end. */
function read(url: string, agent: Agent, body: string): Promise<string> {
  return new Promise((resolve, reject) => {
    const headers = { "content-type": "application/json", "content-length": body.length };
    const options = { method: "POST", agent, headers };
    const outgoing = request(`${url}/v1/chat/completions`, options, (incoming) => {
      let text = "";
      incoming.setEncoding("utf8").on("data", (piece: string) => {
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

/** Microseconds of processor time for each event. */
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
  return (1e6 * seconds) / (streams * events);
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
  const least = new Map<string, number>();
  for (const load of LOADS) {
    const costs = new Map<string, number[]>();
    for (let round = 0; round <= ROUNDS; round++) {
      for (const [name, proxy] of Object.entries(proxies)) {
        const cost = await costOf(proxy, load);
        // The first compiles.
        if (round > 0) costs.set(name, [...(costs.get(name) ?? []), cost]);
      }
    }
    for (const [name, all] of costs) {
      const best = Math.min(...all);
      least.set(`${name} ${load.streams}`, best);
      const memory = (await proxies[name as "router"].memory()) / 2 ** 20;
      const cells = [String(load.streams), name, best.toFixed(1), memory.toFixed(0)];
      rows.push(cells);
    }
  }
  console.log(table(["streams", "", "us of a chunk", "MiB of the process"], rows));
  const ofChunk = (name: string) => least.get(`${name} 50`)!;
  expect(ofChunk("router") - ofChunk("pipe of Node")).toBeLessThan(MOST_OF_CHUNK);
  expect(ofChunk("router")).toBeLessThan(ofChunk("plain proxy of hono"));
}, 600_000);
