/**
 * Pages a second from a prefill to a decode server over a WebSocket and over UCX, by their rooms, beside a
 * socket of Node and UCX alone that move the same bytes in messages of the same size, as many of which
 * are on their way. Both ends share a process, so each figure is what both of them cost together;
 * processor time tells more than the clock where others use the machine too. UCX goes over TCP, as it
 * would between machines without InfiniBand.
 *
 * @module
 */

import type { AddressInfo } from "node:net";
import { connect as connectSocket, createServer, type Socket } from "node:net";
import { cpus } from "node:os";
import { afterAll, beforeAll, expect, test } from "vitest";
import type { Channel } from "../../src/disaggregation/channel.ts";
import { DecodeRooms } from "../../src/disaggregation/decode_rooms.ts";
import { MAX_FRAMES_AHEAD, MAX_PAGE_BYTES } from "../../src/disaggregation/limits.ts";
import { PrefillRooms } from "../../src/disaggregation/prefill_rooms.ts";
import { listenForDecode, PAGES_PATH } from "../../src/node/disaggregation/bootstrap_server.ts";
import { connectWebSocket } from "../../src/node/disaggregation/web_socket_channel.ts";
import { UcxChannel } from "../../src/node/ucx/ucx_channel.ts";
import { UcxLibrary } from "../../src/node/ucx/ucx_library.ts";
import { lackOfUcx } from "../../test/support/ucx.ts";
import { table } from "../support/table.ts";

/** Of a page of 64 tokens of a latent cache: 61 layers of 576 values in BF16 have 4.3 MiB. */
const PAGE_BYTES = [16 * 2 ** 10, 256 * 2 ** 10, MAX_PAGE_BYTES];
const TOTAL_BYTES = 64 * 2 ** 20;
const ROUNDS = 4;
const PAGE_SIZE = 64;

const HEARTBEAT = { interval: 10_000, misses: 3 };
const WAITS = { openTimeout: 60_000, takeTimeout: 60_000, connectTimeout: 10_000 };
const TIMES = { ...WAITS, waitTimeout: 60_000, heartbeat: HEARTBEAT };
const LAYOUT = {
  ...{ modelHash: "m", numerics: "{}", dtype: "bf16" as const },
  ...{ entryWidth: 576, pageSize: PAGE_SIZE, layers: 61 },
};

const lack = lackOfUcx();
if (lack !== undefined) console.log(`Pages by UCX are not measured: ${lack}`);
// Else it would copy within the process.
process.env.UCX_TLS ??= "tcp";

const prefillRooms = new PrefillRooms({ layout: LAYOUT, key: "k", times: TIMES });
let decodeRooms: DecodeRooms;
let ucxRooms: DecodeRooms;
let ucx: UcxLibrary | undefined;
let closeRooms: () => Promise<void>;
let rawPort: number;
let closeRaw: () => void;

beforeAll(async () => {
  const accept = prefillRooms.accept.bind(prefillRooms);
  const server = await listenForDecode({ host: "127.0.0.1", port: 0, takesPages: false, accept });
  closeRooms = async () => {
    await server.close();
    await overUcx.close();
  };
  const maxMessage = 2 * MAX_PAGE_BYTES;
  ucx = lack === undefined ? await UcxLibrary.open("lo") : undefined;
  const withUcx = (channel: Channel) =>
    ucx === undefined ? channel : new UcxChannel(channel, { ucx, isRequired: true, maxMessage });
  const overUcx = await listenForDecode({
    ...{ host: "127.0.0.1", port: 0, takesPages: false },
    accept: (channel) => accept(withUcx(channel)),
  });
  const roomsAt = (port: number, over: (channel: Channel) => Channel) =>
    new DecodeRooms({
      ...{ layout: LAYOUT, key: "k", times: TIMES, port },
      hosts: [{ host: "127.0.0.1" }],
      connect: async (host) => {
        const url = `ws://${host}:${port}${PAGES_PATH}`;
        return over(await connectWebSocket(url, { timeout: 10_000, maxMessage }));
      },
    });
  decodeRooms = roomsAt(server.port, (channel) => channel);
  ucxRooms = roomsAt(overUcx.port, withUcx);
  const raw = createServer((socket) => void sendRaw(socket));
  await new Promise<void>((resolve) => raw.listen(0, "127.0.0.1", resolve));
  rawPort = (raw.address() as AddressInfo).port;
  closeRaw = () => raw.close();
  console.log(`${cpus()[0]!.model}, Node ${process.versions.node}`);
});

afterAll(async () => {
  decodeRooms.close();
  ucxRooms.close();
  prefillRooms.close();
  await closeRooms();
  closeRaw();
  ucx?.close();
});

let room = 0;

/** Pages of one message, their bytes, and how many messages there are. */
interface Load {
  readonly pages: number;
  readonly bytes: Uint8Array<ArrayBuffer>;
  readonly messages: number;
}

function loadOf(pageBytes: number): Load {
  const pages = Math.max(Math.floor(MAX_PAGE_BYTES / pageBytes), 1);
  const bytes = new Uint8Array(pages * pageBytes).fill(7);
  return { pages, bytes, messages: TOTAL_BYTES / bytes.length };
}

/** Moves all pages of a prompt from one room to the other. */
async function byRooms({ pages, bytes, messages }: Load, decode = decodeRooms): Promise<void> {
  room += 1;
  const pageCount = pages * messages;
  const prompt = { tokens: Array(8).fill(1), pageSize: PAGE_SIZE, pageCount };
  const [from, to] = [
    prefillRooms.open(String(room)),
    decode.open({ host: "127.0.0.1", room: String(room) }, false),
  ];
  const send = async () => {
    const first = await from.begin(prompt);
    for (let page = first; page < pageCount; page += pages) {
      await from.take({ first: page, count: pages, bytes });
    }
    from.computed(undefined);
    from.end(0);
    await from.over;
  };
  const take = async () => {
    to.announce(prompt);
    let taken = 0;
    for await (const run of to.pages(0)) {
      expect([run.first, run.bytes.length, run.bytes.at(-1)]).toEqual([taken, bytes.length, 7]);
      taken += run.count;
    }
    expect(taken).toBe(pageCount);
  };
  await Promise.all([send(), take()]);
}

let rawLoad: Load;

/** Sends messages, of which a few are not answered by a byte yet. */
async function sendRaw(socket: Socket): Promise<void> {
  const { bytes, messages } = rawLoad;
  let [sent, answered] = [0, 0];
  socket.setNoDelay(true);
  const fill = () => {
    for (; sent < messages && sent - answered < MAX_FRAMES_AHEAD; sent++) socket.write(bytes);
    if (answered === messages) socket.end();
  };
  socket.on("data", (answers: Uint8Array) => {
    answered += answers.length;
    fill();
  });
  fill();
}

/** Moves the same bytes over a socket; each message is put together, as it is for the page codec. */
function byRawSocket(load: Load): Promise<void> {
  rawLoad = load;
  const { length } = load.bytes;
  return new Promise((resolve, reject) => {
    const socket = connectSocket(rawPort, "127.0.0.1");
    let message = new Uint8Array(length);
    let [at, taken] = [0, 0];
    socket.on("data", (bytes: Uint8Array) => {
      let rest = bytes;
      while (rest.length > 0) {
        const part = rest.subarray(0, length - at);
        message.set(part, at);
        at += part.length;
        rest = rest.subarray(part.length);
        if (at < length) continue;
        expect(message.at(-1)).toBe(7);
        [at, message] = [0, new Uint8Array(length)];
        taken += 1;
        socket.write(Uint8Array.of(1));
      }
    });
    socket.once("error", reject);
    socket.once("end", () => resolve(expect(taken).toBe(load.messages)));
  });
}

/** Moves the same bytes by UCX, as many messages at once. */
async function byRawUcx({ bytes, messages }: Load): Promise<void> {
  const tag = { low: 1, high: 2 };
  const library = ucx!;
  const { peer, connected } = library.connect(library.address);
  await connected;
  const send = async () => {
    const sent: Promise<unknown>[] = [];
    for (let i = 0; i < messages; i++) {
      if (i >= MAX_FRAMES_AHEAD) await sent[i - MAX_FRAMES_AHEAD];
      sent.push(library.send(peer, tag, [bytes]));
    }
    await Promise.all(sent);
  };
  const take = async () => {
    for (let i = 0; i < messages; i++) {
      const message = await library.receive(tag, bytes.length);
      expect(message.at(-1)).toBe(7);
    }
  };
  await Promise.all([send(), take()]);
  library.disconnect(peer);
}

interface Cost {
  readonly seconds: number;
  readonly cpuSeconds: number;
}

/** Of a way, the least of several rounds for each figure. */
async function measured(move: (load: Load) => Promise<void>, load: Load): Promise<Cost> {
  const [began, before] = [performance.now(), process.cpuUsage()];
  await move(load);
  const { user, system } = process.cpuUsage(before);
  return { seconds: (performance.now() - began) / 1000, cpuSeconds: (user + system) / 1e6 };
}

const least = (one: Cost | undefined, other: Cost): Cost => ({
  seconds: Math.min(one?.seconds ?? other.seconds, other.seconds),
  cpuSeconds: Math.min(one?.cpuSeconds ?? other.cpuSeconds, other.cpuSeconds),
});

test("pages of several sizes", { timeout: 600_000 }, async () => {
  const ways = {
    "rooms by WebSocket": byRooms,
    "raw socket": byRawSocket,
    ...(lack === undefined && {
      "rooms by UCX": (load: Load) => byRooms(load, ucxRooms),
      "raw UCX": byRawUcx,
    }),
  };
  const rows: string[][] = [];
  for (const pageBytes of PAGE_BYTES) {
    const load = loadOf(pageBytes);
    const costs = new Map<string, Cost>();
    for (let round = 0; round <= ROUNDS; round++) {
      for (const [name, move] of Object.entries(ways)) {
        const cost = await measured(move, load);
        // The first compiles.
        if (round > 0) costs.set(name, least(costs.get(name), cost));
      }
    }
    const rawOf = (name: string) => costs.get(name.endsWith("UCX") ? "raw UCX" : "raw socket")!;
    for (const [name, { seconds, cpuSeconds }] of costs) {
      const raw = rawOf(name);
      rows.push([
        ...[name, `${pageBytes / 1024} KiB`],
        ((load.pages * load.messages) / seconds).toFixed(0),
        (TOTAL_BYTES / seconds / 1e9).toFixed(2),
        ((1e3 * cpuSeconds) / (TOTAL_BYTES / 1e9)).toFixed(0),
        ...[(raw.seconds / seconds).toFixed(2), (raw.cpuSeconds / cpuSeconds).toFixed(2)],
      ]);
    }
  }
  const shares = ["share of raw", "by processor"];
  const header = ["", "page", "pages/s", "GB/s", "ms of processor a GB", ...shares];
  console.log(table(header, rows));
});
