/** What either side may not say, or says too late or not at all: the rooms that it concerns end, and tell why. */
import { afterEach, expect, test } from "vitest";
import type { ChannelMessage } from "../../src/disaggregation/channel.ts";
import { promptDigest, proofOf } from "../../src/disaggregation/handshake.ts";
import { MAX_FRAMES_AHEAD } from "../../src/disaggregation/limits.ts";
import { PROTOCOL_VERSION } from "../../src/disaggregation/messages.ts";
import { encodeFrame } from "../../src/disaggregation/page_frame.ts";
import { PrefillRooms } from "../../src/disaggregation/prefill_rooms.ts";
import { ROOM_STATES, RoomState, type RoomStateName } from "../../src/disaggregation/room_state.ts";
import { travellingPrompt } from "../../src/engine/transfer/page_routes.ts";
import { DisaggregationError } from "../../src/errors.ts";
import { channelPair } from "../support/exactness/apart.ts";
import { SPOKEN_LAYOUT, type SpokenPrefill, spokenPrefill } from "../support/spoken_prefill.ts";
import { until } from "../support/until.ts";

const closing: (() => void)[] = [];
afterEach(() => {
  for (const close of closing.splice(0)) close();
});

const tokens = Array.from({ length: 30 }, (_, i) => i);
const PROMPT = travellingPrompt({ tokens }, SPOKEN_LAYOUT.pageSize);

const frame = (lease: number, first: number) =>
  encodeFrame({ lease, first, count: 1, bytes: Uint8Array.of(first) });

/** A room of a decode server that has asked for its pages. */
async function asking(prefill: SpokenPrefill, name: string) {
  closing.push(() => prefill.rooms.close());
  const before = prefill.said.length;
  const room = prefill.rooms.open({ host: "p", room: name }, false);
  room.announce(PROMPT);
  const pages = room.pages(0);
  const next = pages.next();
  next.catch(() => {});
  const opened = () => prefill.said.slice(before).find(({ type }) => type === "open");
  await until(() => expect(opened()).toBeDefined());
  const lease = opened()!.lease as number;
  await until(() => expect(prefill.said).toContainEqual({ type: "want", lease, first: 0 }));
  return { room, pages, next, lease };
}

test("a state only goes forward, and one that is over stays so", () => {
  const order = ROOM_STATES.slice(0, 4);
  for (const [i, from] of order.entries()) {
    for (const to of ROOM_STATES) {
      const state = new RoomState();
      for (const one of order.slice(1, i + 1)) state.advance(one);
      expect(state.name).toBe(from);
      const isBehind = (ROOM_STATES as readonly RoomStateName[]).indexOf(to) < i;
      if (from === "success") expect(state.advance(to)).toBe(false);
      else if (isBehind) expect(() => state.advance(to)).toThrow(`from "${from}" to "${to}"`);
      else expect([state.advance(to), state.name]).toEqual([true, to]);
    }
  }
});

test("pages of leases that are over, or never were, are in no other room", async () => {
  const prefill = spokenPrefill();
  const first = await asking(prefill, "1");
  first.room.leave();
  await expect(first.next).rejects.toThrow("the decode server has left it");
  // A new request has the same room, and another lease.
  const second = await asking(prefill, "1");
  expect(second.lease).not.toBe(first.lease);
  for (const lease of [first.lease, 77]) prefill.send(frame(lease, 5));
  prefill.say({ type: "end", lease: first.lease, cachedTokens: 9 });
  prefill.say({ type: "failed", lease: first.lease, problem: "late" });
  prefill.send(frame(second.lease, 0));
  expect((await second.next).value).toMatchObject({ first: 0, bytes: Uint8Array.of(0) });
  expect(second.room.cachedTokens).toBe(0);
});

test("more pages than may be ahead, and those behind the end, end their room alone", async () => {
  const prefill = spokenPrefill();
  const [fast, late, other] = [
    await asking(prefill, "1"),
    await asking(prefill, "2"),
    await asking(prefill, "3"),
  ];
  // The first is taken at once.
  for (let i = 0; i <= MAX_FRAMES_AHEAD + 1; i++) prefill.send(frame(fast.lease, i));
  prefill.say({ type: "end", lease: late.lease, cachedTokens: 0 });
  prefill.send(frame(late.lease, 0));
  await until(() => expect([fast.room.isOver, late.room.isOver]).toEqual([true, true]));
  expect(fast.room.error?.message).toContain(`more than ${MAX_FRAMES_AHEAD} messages`);
  expect([fast.room.error?.side, other.room.isOver]).toEqual(["prefill", false]);
  await until(() =>
    expect(prefill.said).toContainEqual(
      expect.objectContaining({ type: "leave", lease: fast.lease }),
    ),
  );
});

test("a prefill server that says why is quoted, and one that is gone or silent is named", async () => {
  const prefill = spokenPrefill({}, { interval: 30, misses: 3 });
  const told = await asking(prefill, "1");
  prefill.say({ type: "failed", lease: told.lease, problem: "the client left" });
  await expect(told.next).rejects.toThrow(DisaggregationError);
  await expect(told.next).rejects.toThrow("Cannot go on with room 1: the client left");
  const silent = await asking(prefill, "2");
  await expect(silent.next).rejects.toThrow("it has given no sign of life for 0.09 s");
  // The pair meets anew with the next request.
  expect(prefill.connections()).toBe(1);
  const cut = await asking(prefill, "3");
  expect(prefill.connections()).toBe(2);
  prefill.cut("it ends");
  await expect(cut.next).rejects.toThrow(
    "Losing connection with prefill instance (bootstrap_addr: p:1): it ends",
  );
  expect(prefill.rooms.figures).toMatchObject({
    failed: 3,
    failures: { other_server: 1, lost: 2 },
  });
  expect(prefill.rooms.counts).toMatchObject({ rooms: 0, servers: 0 });
});

test("pages that come before the servers know each other end the connection", async () => {
  const prefill = spokenPrefill({ type: "beat" });
  closing.push(() => prefill.rooms.close());
  const room = prefill.rooms.open({ host: "p", room: "1" }, false);
  room.announce(PROMPT);
  const next = room.pages(0).next();
  await until(() => expect(prefill.said.map(({ type }) => type)).toContain("proof"));
  prefill.send(frame(0, 0));
  await expect(next).rejects.toThrow("pages have come before the servers know each other");
});

/** A prefill server's rooms, and a decode server's end for which the test speaks. */
async function spokenDecode() {
  const times = { openTimeout: 5000, takeTimeout: 60 };
  const heartbeat = { interval: 10_000, misses: 3 };
  const rooms = new PrefillRooms({
    ...{ layout: SPOKEN_LAYOUT, key: "k", times: { ...times, heartbeat } },
  });
  closing.push(() => rooms.close());
  const heard: Record<string, unknown>[] = [];
  const frames: ChannelMessage[] = [];
  const closed: string[] = [];
  const [own, other] = channelPair();
  own.listen({
    onMessage: (message) => {
      if (typeof message === "string") heard.push(JSON.parse(message));
      else frames.push(message);
    },
    onClose: (reason) => closed.push(reason),
  });
  rooms.accept(other);
  const say = (message: object) => own.send(JSON.stringify(message));
  say({ type: "hello", version: PROTOCOL_VERSION, nonce: "n" });
  await until(() => expect(heard.map(({ type }) => type)).toEqual(["welcome"]));
  const nonces = { decode: "n", prefill: String(heard[0]!.nonce) };
  const proof = proofOf("k", "decode", nonces);
  say({ type: "proof", proof, layout: SPOKEN_LAYOUT, ranks: 1, offer: "" });
  await until(() => expect(heard.map(({ type }) => type)).toContain("ready"));
  const open = (lease: number, room: string) =>
    say({ type: "open", lease, room, digest: promptDigest(PROMPT) });
  const send = (message: ChannelMessage) => own.send(message);
  return { rooms, heard, frames, closed, say, send, open };
}

test("a lease is good once on a connection, and a room has one decode server", async () => {
  const { rooms, heard, closed, open } = await spokenDecode();
  const room = rooms.open("1");
  room.over.catch(() => {});
  open(4, "1");
  await until(() => expect(room.hasPeer).toBe(true));
  open(5, "1");
  await until(() => expect(heard).toContainEqual(expect.objectContaining({ lease: 5 })));
  expect(heard.at(-1)!.problem).toBe("another decode server has opened the room");
  expect([room.state, closed]).toEqual(["waiting for input", []]);
  open(4, "2");
  await until(() => expect(closed).toEqual(["lease 4 is not a new one"]));
  await expect(room.over).rejects.toThrow("the decode server is lost: lease 4 is not a new one");
  expect(rooms.counts).toMatchObject({ rooms: 0, awaited: 0, servers: 0 });
});

test("pages are sent as they are computed, as many ahead as may be, and left where none are taken", async () => {
  const { rooms, heard, frames, say, open } = await spokenDecode();
  const room = rooms.open("1");
  const begun = room.begin(PROMPT);
  open(0, "1");
  say({ type: "want", lease: 0, first: 1 });
  expect(await begun).toBe(1);
  const take = (first: number) => room.take({ first, count: 1, bytes: Uint8Array.of(first) });
  await take(1);
  // Nothing of the prompt but this page is computed.
  await until(() => expect(frames).toHaveLength(1));
  expect(room.state).toBe("transferring");
  await take(2);
  const third = take(3);
  third.catch(() => {});
  await until(() => expect(frames).toHaveLength(MAX_FRAMES_AHEAD));
  say({ type: "taken", lease: 0 });
  await third;
  await until(() => expect(frames).toHaveLength(MAX_FRAMES_AHEAD + 1));
  await expect(room.over).rejects.toThrow("pages that were sent are not taken within 0.06 s");
  await until(() =>
    expect(heard).toContainEqual(expect.objectContaining({ type: "failed", lease: 0 })),
  );
  await expect(take(4)).rejects.toThrow("are not taken");
  expect(rooms.counts).toMatchObject({ rooms: 0, frames: 0 });
});

test("who has not proved that it knows the key opens nothing, and no pages come to a prefill server", async () => {
  const times = { openTimeout: 5000, takeTimeout: 5000 };
  const heartbeat = { interval: 10_000, misses: 3 };
  const rooms = new PrefillRooms({
    ...{ layout: SPOKEN_LAYOUT, key: "k", times: { ...times, heartbeat } },
  });
  closing.push(() => rooms.close());
  const room = rooms.open("1");
  const hello = { type: "hello", version: PROTOCOL_VERSION, nonce: "n" };
  const open = { type: "open", lease: 0, room: "1", digest: promptDigest(PROMPT) };
  const proof = { type: "proof", proof: "", layout: SPOKEN_LAYOUT, ranks: 1, offer: "" };
  const wrong = [[open], [proof], [hello, open], [hello, proof, open], [hello, hello]];
  for (const messages of wrong) {
    const [own, other] = channelPair();
    const closed: string[] = [];
    own.listen({ onMessage: () => {}, onClose: (reason) => closed.push(reason) });
    rooms.accept(other);
    for (const message of messages) own.send(JSON.stringify(message));
    await until(() => expect(closed).toHaveLength(1));
  }
  expect([room.hasPeer, room.state, rooms.counts.awaited]).toEqual([false, "bootstrapping", 0]);
  const { closed, send } = await spokenDecode();
  send(frame(0, 0));
  await until(() => expect(closed).toEqual(["pages come from prefill servers only"]));
});
