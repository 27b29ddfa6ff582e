/**
 * Ten thousand pages between two processes over UCX, with connections that come and go, some of them while
 * pages are on their way: every byte is right, nothing is left, and neither process grows.
 */
import { fork } from "node:child_process";
import { once } from "node:events";
import { fileURLToPath } from "node:url";
import { afterAll, expect, test } from "vitest";
import { DecodeRooms } from "../../../src/disaggregation/decode_rooms.ts";
import { PAGES_PATH } from "../../../src/node/disaggregation/bootstrap_server.ts";
import { connectWebSocket } from "../../../src/node/disaggregation/web_socket_channel.ts";
import { UcxLibrary } from "../../../src/node/ucx/ucx_library.ts";
import { lackOfUcx } from "../../support/ucx.ts";
import {
  type Asked,
  byteOf,
  KEY,
  LAYOUT,
  type Left,
  overUcx,
  PAGE_BYTES,
  promptOf,
  TIMES,
} from "../../support/ucx_prefill.ts";
import { until } from "../../support/until.ts";

const root = fileURLToPath(new URL("../../..", import.meta.url));
const isFull = process.env.WISP_TEST_FULL === "1";
const lack = lackOfUcx();

const CONNECTIONS = 100;
/** Of each connection; with those that it leaves behind there are more. */
const PAGES = 100;
/** Pages of a message. */
const TOGETHER = [1, 3, 25];
/** One of so many connections ends while pages of it are on their way. */
const LEAVES = 5;
/** Connections behind which a process has what it needs. */
const WARM = 20;
/** Bytes that a process may be larger than then: a fifth of the pages that it moves from there on. */
const MOST_GROWTH = 24 * 2 ** 20;

const started: { kill(): unknown }[] = [];
afterAll(() => {
  for (const one of started) one.kill();
});

async function prefillServer() {
  const args = ["test/support/ucx_prefill.ts"];
  const execArgv = ["--expose-gc"];
  const child = fork("packaging/run_module.mjs", args, { cwd: root, execArgv });
  started.push(child);
  const [port] = (await once(child, "message")) as [number];
  return {
    port,
    ask: (asked: Asked) => child.send(asked),
    left: async (): Promise<Left> => {
      child.send("what is left");
      const [left] = await once(child, "message");
      return left;
    },
  };
}

function decodeRooms(port: number, ucx: UcxLibrary): DecodeRooms {
  return new DecodeRooms({
    ...{ layout: LAYOUT, key: KEY, times: TIMES, port },
    hosts: [{ host: "127.0.0.1" }],
    connect: async (host) => {
      const url = `ws://${host}:${port}${PAGES_PATH}`;
      const limits = { timeout: 600_000, maxMessage: 2 ** 23 };
      return overUcx(await connectWebSocket(url, limits), ucx);
    },
  });
}

/** @param most Behind so many messages the server leaves. @returns Pages that have come. */
async function take(
  rooms: DecodeRooms,
  { room, pages }: Exclude<Asked, string>,
  most = Number.POSITIVE_INFINITY,
): Promise<number> {
  const to = rooms.open({ host: "127.0.0.1", room: String(room) }, false);
  to.announce(promptOf(pages));
  let [taken, messages] = [0, 0];
  for await (const { first, count, bytes } of to.pages(0)) {
    expect([first, bytes.length]).toEqual([taken, count * PAGE_BYTES]);
    for (let i = 0; i < count; i++) {
      const page = bytes.subarray(i * PAGE_BYTES, (i + 1) * PAGE_BYTES);
      const byte = byteOf(room, first + i);
      expect(page.every((one) => one === byte)).toBe(true);
    }
    taken += count;
    messages += 1;
    if (messages === most) rooms.close();
  }
  return taken;
}

test.runIf(isFull && lack === undefined)("pages between two processes", async () => {
  const ucx = await UcxLibrary.open("lo");
  const server = await prefillServer();
  const memories: (readonly [prefill: number, decode: number])[] = [];
  let [room, pages, lost] = [0, 0, 0];
  for (let connection = 0; connection < CONNECTIONS; connection++) {
    const rooms = decodeRooms(server.port, ucx);
    const askFor = (): Exclude<Asked, string> => {
      room += 1;
      const asked = { room, pages: PAGES, together: TOGETHER[connection % TOGETHER.length]! };
      server.ask(asked);
      return asked;
    };
    pages += await take(rooms, askFor());
    if (connection % LEAVES === 0) {
      await expect(take(rooms, askFor(), 2)).rejects.toThrow("the decode server ends");
      lost += 1;
    }
    rooms.close();
    expect(rooms.counts).toEqual({ rooms: 0, transferring: 0, servers: 0 });
    if (connection + 1 !== WARM && connection + 1 !== CONNECTIONS) continue;
    const left = await until(async () => {
      const now = await server.left();
      expect([now.rooms, now.frames, now.servers]).toEqual([0, 0, 0]);
      return now;
    });
    memories.push([left.memory, process.memoryUsage.rss()]);
  }
  ucx.close();
  expect([pages, lost]).toEqual([PAGES * CONNECTIONS, CONNECTIONS / LEAVES]);
  const growth = memories[1]!.map((bytes, i) => bytes - memories[0]![i]!);
  const shown = growth.map((bytes) => (bytes / 2 ** 20).toFixed(1)).join(" and ");
  console.log(`${pages} pages, ${lost} connections that left: ${shown} MiB more`);
  expect(Math.max(growth[0]!, growth[1]!)).toBeLessThan(MOST_GROWTH);
});
