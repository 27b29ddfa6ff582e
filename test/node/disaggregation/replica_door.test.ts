/**
 * Where a prefill server's replicas are met: decode servers hear which of them has a room, whichever
 * side comes first, and why none has.
 */
import { afterEach, expect, test } from "vitest";
import { PageForm } from "../../../src/cache/page_form.ts";
import type { DecodeRoom } from "../../../src/disaggregation/decode_room.ts";
import { DecodeRooms } from "../../../src/disaggregation/decode_rooms.ts";
import { PrefillRooms } from "../../../src/disaggregation/prefill_rooms.ts";
import { newTicket } from "../../../src/disaggregation/ticket.ts";
import { travellingPrompt } from "../../../src/engine/transfer/page_routes.ts";
import type { GenerationChunk, GenerationEngine } from "../../../src/generation.ts";
import { ReplicaDoor, type RoutedRequest } from "../../../src/node/disaggregation/replica_door.ts";
import { refusal } from "../../../src/node/ranks/restarting_engine.ts";
import { channelPair } from "../../support/exactness/apart.ts";
import { SPOKEN_LAYOUT, spokenPrefill } from "../../support/spoken_prefill.ts";
import { until } from "../../support/until.ts";

const HEARTBEAT = { interval: 10_000, misses: 3 };
const TIMES = {
  ...{ openTimeout: 10_000, takeTimeout: 10_000, heartbeat: HEARTBEAT },
  ...{ connectTimeout: 10_000, waitTimeout: 10_000 },
};
const PROMPT = travellingPrompt({ tokens: [1, 2, 3, 4, 5] }, SPOKEN_LAYOUT.pageSize);
const DOOR = 1;
const CHUNK = { text: "", tokens: [], finish: null } as unknown as GenerationChunk;

const closing: (() => void)[] = [];
afterEach(() => {
  for (const close of closing.splice(0)) close();
});

/** A prefill server with two replicas, met at the ports 11 and 12, and a decode server. */
function servers({ takesTickets = false, openTimeout = 10_000 } = {}) {
  const key = "k";
  const replicas = [11, 12].map((port) => ({
    port,
    rooms: new PrefillRooms({ layout: SPOKEN_LAYOUT, key, times: TIMES }),
  }));
  const door = new ReplicaDoor({
    ...{ form: new PageForm(SPOKEN_LAYOUT), key, openTimeout, heartbeat: HEARTBEAT },
    hasReplicas: true,
  });
  const links: (() => void)[] = [];
  const ports: number[] = [];
  const decode = new DecodeRooms({
    ...{ layout: SPOKEN_LAYOUT, key: takesTickets ? "" : key, times: TIMES, takesTickets },
    ...{ port: DOOR, hosts: [{ host: "p" }] },
    connect: async (_, port) => {
      const [own, other] = channelPair();
      ports.push(port);
      const met = port === DOOR ? door : replicas.find((one) => one.port === port)!.rooms;
      met.accept(other, takesTickets);
      links.push(() => other.close("cut"));
      return own;
    },
  });
  closing.push(
    () => decode.close(),
    () => door.close(),
    ...replicas.map(
      ({ rooms }) =>
        () =>
          rooms.close(),
    ),
  );
  const engine = replicaEngine(replicas);
  return { door, decode, replicas, engine, ports, cut: () => links.at(-1)!() };
}

/** Computes a prompt on the replica that the request names. */
function replicaEngine(
  replicas: readonly { readonly port: number; readonly rooms: PrefillRooms }[],
): GenerationEngine {
  async function* generate(request: RoutedRequest): AsyncGenerator<GenerationChunk, undefined> {
    const { port, rooms } = replicas[request.dataParallelRank!]!;
    request.onRoute?.(port);
    if (request.prompt === "fails") throw new Error("its ranks are lost");
    const { room: name, ticket } = request.bootstrap!;
    const room = rooms.open(name, "r", ticket as string | undefined);
    await room.begin(PROMPT);
    yield CHUNK;
    room.end(0);
    room.computed(undefined);
    await room.over;
    return undefined;
  }
  return { generate } as unknown as GenerationEngine;
}

async function all<T>(items: AsyncIterable<T>): Promise<readonly T[]> {
  const list: T[] = [];
  for await (const one of items) list.push(one);
  return list;
}

function ask(
  { door, engine }: ReturnType<typeof servers>,
  name: string,
  { replica = 0, ...more }: { replica?: number; prompt?: string; ticket?: string } = {},
): Promise<readonly GenerationChunk[]> {
  const { prompt, ticket } = more;
  const bootstrap = { room: name, ticket };
  const request = { prompt, bootstrap, dataParallelRank: replica } as RoutedRequest;
  const asked = all(door.generate(engine, request));
  asked.catch(() => {});
  return asked;
}

/** All pages that a room gets: none of them is lacking here but the last token's. */
async function pagesOf(room: DecodeRoom): Promise<number> {
  room.announce(PROMPT);
  let count = 0;
  for await (const run of room.pages(0)) count += run.count;
  return count;
}

test("rooms are opened with the replica that has their request, whichever side comes first", async () => {
  const both = servers();
  const { decode, door, replicas, ports } = both;
  const early = pagesOf(decode.open({ host: "p", room: "1" }, false));
  await until(() => expect(door.meetingCounts.awaited).toBe(1));
  const first = ask(both, "1", { replica: 1 });
  expect(await Promise.all([first, early])).toEqual([[CHUNK], 0]);
  expect(ports).toEqual([DOOR, 12]);
  const second = ask(both, "2", { replica: 0 });
  await Promise.all([second, pagesOf(decode.open({ host: "p", room: "2" }, false))]);
  const third = ask(both, "3", { replica: 1 });
  await Promise.all([third, pagesOf(decode.open({ host: "p", room: "3" }, false))]);
  // Each is met once, and together they are one server.
  expect(ports).toEqual([DOOR, 12, 11]);
  expect(replicas.map(({ rooms }) => rooms.figures.opened)).toEqual([1, 2]);
  expect(decode.counts).toEqual({ rooms: 0, transferring: 0, servers: 1 });
  expect(decode.figures).toMatchObject({ opened: 3, failed: 0 });
  expect([door.rooms.length, door.meetingCounts]).toEqual([0, { awaited: 0, servers: 1 }]);
});

test("a request that fails before or after its decode server comes tells it why", async () => {
  const both = servers();
  await expect(ask(both, "1", { prompt: "fails" })).rejects.toThrow("its ranks are lost");
  const late = pagesOf(both.decode.open({ host: "p", room: "9" }, false));
  await until(() => expect(both.door.meetingCounts.awaited).toBe(1));
  const generate = () => refusal(new Error("no replica is left"));
  const engine = { generate } as unknown as GenerationEngine;
  const asked = both.door.generate(engine, { bootstrap: { room: "9" } }).next();
  await expect(asked).rejects.toThrow("no replica is left");
  await expect(late).rejects.toThrow("Cannot go on with room 9: no replica is left");
  // The failure of one that none had come for is remembered.
  await expect(both.door.generate(engine, { bootstrap: { room: "10" } }).next()).rejects.toThrow(
    "no replica is left",
  );
  const tenth = pagesOf(both.decode.open({ host: "p", room: "10" }, false));
  await expect(tenth).rejects.toThrow("Cannot go on with room 10: no replica is left");
  expect(both.decode.figures.failures).toMatchObject({ other_server: 2, lost: 0 });
  expect(both.door.rooms).toEqual([]);
});

test("a room that no request comes for, or whose request leaves, is forgotten", async () => {
  const both = servers({ openTimeout: 60 });
  const lonely = pagesOf(both.decode.open({ host: "p", room: "1" }, false));
  await expect(lonely).rejects.toThrow("no request has come to the prefill server within 0.06 s");
  const patient = servers();
  const left = patient.decode.open({ host: "p", room: "2" }, false);
  const pages = pagesOf(left);
  await until(() => expect(patient.door.meetingCounts.awaited).toBe(1));
  left.leave();
  await expect(pages).rejects.toThrow("the decode server has left it");
  await until(() => expect(patient.door.meetingCounts.awaited).toBe(0));
  // The connection goes on.
  await Promise.all([
    ask(patient, "2"),
    pagesOf(patient.decode.open({ host: "p", room: "2" }, false)),
  ]);
});

test("requests without a room, or with that of another, are refused", async () => {
  const both = servers();
  const { door, engine } = both;
  await expect(door.generate(engine, {}).next()).rejects.toThrow("without boostrap room id");
  const first = ask(both, "1");
  await expect(ask(both, "1")).rejects.toThrow("Cannot open room 1: another request that lives");
  await Promise.all([first, pagesOf(both.decode.open({ host: "p", room: "1" }, false))]);
});

test("a connection that ends fails the rooms that are asked for on it", async () => {
  const both = servers();
  const waiting = pagesOf(both.decode.open({ host: "p", room: "1" }, false));
  await until(() => expect(both.door.meetingCounts.awaited).toBe(1));
  both.cut();
  await expect(waiting).rejects.toThrow("(bootstrap_addr: p:1): cut");
  expect(both.decode.counts).toEqual({ rooms: 0, transferring: 0, servers: 0 });
});

test("a page of a browser opens its own rooms with its ticket, at the replica too", async () => {
  const both = servers({ takesTickets: true });
  const open = (room: string) => {
    const ticket = newTicket("k", "aa");
    return pagesOf(both.decode.open({ host: "p", room, ticket }, false));
  };
  await Promise.all([ask(both, "1", { ticket: "aa" }), open("1")]);
  const others = ask(both, "2", { ticket: "bb" });
  await expect(open("2")).rejects.toThrow("the room was made for another decode server");
  await until(() => expect(both.replicas[0]!.rooms.counts.rooms).toBe(1));
  both.replicas[0]!.rooms.close();
  await expect(others).rejects.toThrow("the prefill server ends");
});

test("a replica that sends on to others leads nowhere, nor does a move without a question", async () => {
  const prefill = spokenPrefill({ hasReplicas: true });
  closing.push(() => prefill.rooms.close());
  const room = prefill.rooms.open({ host: "p", room: "1" }, false);
  const pages = pagesOf(room);
  await until(() => expect(prefill.said.map(({ type }) => type)).toContain("open"));
  prefill.say({ type: "moved", lease: 7, port: 5 });
  prefill.say({ type: "moved", lease: 0, port: 5 });
  await until(() => expect(prefill.connections()).toBe(2));
  await until(() => expect(prefill.said.filter(({ type }) => type === "open")).toHaveLength(2));
  prefill.say({ type: "moved", lease: 0, port: 6 });
  await expect(pages).rejects.toThrow("replica p:5 has replicas itself");
  expect(prefill.connections()).toBe(2);
});
