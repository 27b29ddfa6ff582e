/** By tickets a stranger opens the rooms that were made for it, and no others. */
import { afterEach, expect, test } from "vitest";
import type { PageTicket } from "../../src/bootstrap.ts";
import type {
  BytesWay,
  Channel,
  ChannelEvents,
  ChannelMessage,
} from "../../src/disaggregation/channel.ts";
import { DecodeRooms } from "../../src/disaggregation/decode_rooms.ts";
import { promptDigest, proofOf } from "../../src/disaggregation/handshake.ts";
import { MAX_OWNER_CHANNELS, MAX_OWNER_LEASES } from "../../src/disaggregation/limits.ts";
import { PROTOCOL_VERSION } from "../../src/disaggregation/messages.ts";
import { PrefillRooms } from "../../src/disaggregation/prefill_rooms.ts";
import { newTicket, UsedTickets } from "../../src/disaggregation/ticket.ts";
import { until } from "../support/until.ts";

const LAYOUT = {
  ...{ modelHash: "m", numerics: "{}", dtype: "bf16" as const },
  ...{ entryWidth: 8, pageSize: 4, layers: 2 },
};
const HEARTBEAT = { interval: 10_000, misses: 3 };
const WAITS = { openTimeout: 10_000, takeTimeout: 10_000, connectTimeout: 10_000 };
const TIMES = { ...WAITS, waitTimeout: 10_000, heartbeat: HEARTBEAT };
const PROMPT = { tokens: [1, 2, 3, 4, 5], pageSize: 4, pageCount: 1 };

/** One end of a connection within the test. */
class End implements Channel {
  other!: End;
  readonly way?: BytesWay;
  constructor(way?: BytesWay) {
    if (way !== undefined) this.way = way;
  }
  #events: ChannelEvents | undefined;
  listen(events: ChannelEvents): void {
    this.#events = events;
  }
  send(message: ChannelMessage): void {
    queueMicrotask(() => this.other.#events?.onMessage(message));
  }
  close(reason: string): void {
    queueMicrotask(() => this.other.#events?.onClose(reason));
  }
}

const closing: (() => void)[] = [];
afterEach(() => {
  for (const close of closing.splice(0)) close();
});

/** Rooms of a prefill server, and of a stranger that does not know its key. */
function strangerAt(key: string, isPage = true, way?: BytesWay) {
  const prefill = new PrefillRooms({ layout: LAYOUT, key, times: TIMES });
  const decode = new DecodeRooms({
    ...{ layout: LAYOUT, key: "", times: TIMES, port: 1, hosts: [{ host: "p" }] },
    takesTickets: true,
    connect: async () => {
      const [own, other] = [new End(way), new End(way)];
      own.other = other;
      other.other = own;
      prefill.accept(other, isPage);
      return own;
    },
  });
  closing.push(
    () => decode.close(),
    () => prefill.close(),
  );
  /** Opens a room, and tells why it cannot; undefined once its pages may come. */
  const open = async (room: string, ticket?: PageTicket) => {
    const own = decode.open({ host: "p", room, ticket }, false);
    own.announce(PROMPT);
    const pages = own
      .pages(0)
      .next()
      .then(() => undefined);
    return Promise.race([
      pages.catch((error: Error) => error.message),
      // Not for ever: a wait that is left moves the fake timers of later files on.
      until(() => expect(own.isOver || own.state === "waiting for input").toBe(true)).then(
        async () => {
          await new Promise((resolve) => setTimeout(resolve, 20));
          return own.error?.message;
        },
      ),
    ]);
  };
  return { prefill, open };
}

test("a ticket opens the rooms of its owner, and no others, in either order", async () => {
  const { prefill, open } = strangerAt("key");
  const ticket = () => newTicket("key", "aa");
  void prefill.open("1", "r", "aa").begin(PROMPT);
  expect(await open("1", ticket())).toBeUndefined();
  for (const [room, owner] of [
    ["2", "bb"],
    ["3", undefined],
  ] as const) {
    const own = prefill.open(room, "r", owner);
    void own.begin(PROMPT).catch(() => {});
    expect(await open(room, ticket())).toContain("made for another decode server");
    expect(own.state).toBe("bootstrapping");
  }
  const early = open("4", ticket());
  await until(() => expect(prefill.counts.awaited).toBe(1));
  void prefill
    .open("4")
    .begin(PROMPT)
    .catch(() => {});
  await early;
  expect(prefill.counts.awaited).toBe(0);
});

test("who knows the key opens no room that was made for another one", async () => {
  const { prefill, open } = strangerAt("", false);
  void prefill
    .open("1", "r", "aa")
    .begin(PROMPT)
    .catch(() => {});
  expect(await open("1")).toContain("made for another decode server");
});

test("with a ticket pages go as all messages do, also where servers have another way alone", async () => {
  const taken: string[] = [];
  const way: BytesWay = {
    ...{ name: "other", isRequired: true, offer: "address" },
    fits: (offer) => offer === "address",
    take: (offer) => taken.push(offer),
  };
  const stranger = strangerAt("key", false, way);
  void stranger.prefill.open("1", "r", "aa").begin(PROMPT);
  expect(await stranger.open("1", newTicket("key", "aa"))).toBeUndefined();
  expect(taken).toEqual([]);
  const server = strangerAt("", false, way);
  void server.prefill.open("1").begin(PROMPT);
  expect(await server.open("1")).toBeUndefined();
  expect(taken).toEqual(["address"]);
});

test("tickets of others, wrong ones, and pages without one are refused", async () => {
  const problems: (string | undefined)[] = [];
  for (const ticket of [undefined, newTicket("other key", "aa"), { id: "aa.1.b", secret: "" }]) {
    const { prefill, open } = strangerAt("key");
    void prefill
      .open("1", "r", "aa")
      .begin(PROMPT)
      .catch(() => {});
    problems.push(await open("1", ticket));
  }
  expect(problems).toEqual([
    expect.stringContaining("pages of browsers need one"),
    expect.stringContaining("different keys"),
    expect.stringContaining("different keys"),
  ]);
  // Without a key of the group strangers could write tickets.
  const { prefill, open } = strangerAt("");
  void prefill
    .open("1", "r", "aa")
    .begin(PROMPT)
    .catch(() => {});
  expect(await open("1", newTicket("", "aa"))).toContain("a group that has a key");
});

test("a ticket is good once, and for a while", () => {
  const used = new UsedTickets();
  const { id } = newTicket("key", "aa", 1_000_000);
  expect(used.take(id, 1_000_000)).toBe("aa");
  expect(() => used.take(id, 1_000_001)).toThrow("it was used already");
  const later = newTicket("key", "aa", 1_000_000);
  expect(() => used.take(later.id, 1_120_001)).toThrow("its time is over");
  expect(() => used.take("aa.99999999999999.00", 1)).toThrow("it is no ticket");
  expect(() => used.take(newTicket("key", "aa", 9_000_000).id, 1)).toThrow("its time is over");
});

/** A page that has shown a ticket of its owner, as the test speaks for it. */
async function pageAt(prefill: PrefillRooms, owner: string) {
  const [own, other] = [new End(), new End()];
  own.other = other;
  other.other = own;
  const heard: (Record<string, unknown> | Uint8Array)[] = [];
  const closed: string[] = [];
  own.listen({
    onMessage: (message) =>
      heard.push(typeof message === "string" ? JSON.parse(message) : new Uint8Array(0)),
    onClose: (reason) => closed.push(reason),
  });
  prefill.accept(other, true);
  const say = (message: object) => own.send(JSON.stringify(message));
  const of = (type: string) => heard.filter((one) => "type" in one && one.type === type);
  const { id, secret } = newTicket("key", owner);
  say({ type: "hello", version: PROTOCOL_VERSION, nonce: "n", ticket: id });
  await until(() => expect(of("welcome")).toHaveLength(1));
  const [{ nonce }] = of("welcome") as [{ nonce: string }];
  const proof = proofOf(secret, "decode", { decode: "n", prefill: nonce });
  say({ type: "proof", proof, layout: LAYOUT, ranks: 1, offer: "" });
  await until(() => expect(of("ready").length + closed.length).toBeGreaterThan(0));
  return { say, of, heard, closed };
}

const prefillRooms = (workers?: number) => {
  const prefill = new PrefillRooms({ layout: LAYOUT, key: "key", times: TIMES, workers });
  closing.push(() => prefill.close());
  return prefill;
};

test("an owner has one connection, and owners have no more than they may", async () => {
  const prefill = prefillRooms();
  const first = await pageAt(prefill, "a");
  const second = await pageAt(prefill, "a");
  await until(() => expect(first.closed).toEqual(["its owner has connected again"]));
  expect(second.closed).toEqual([]);
  for (let i = 1; i < MAX_OWNER_CHANNELS; i++) await pageAt(prefill, `b${i.toString(16)}`);
  expect(prefill.counts.servers).toBe(MAX_OWNER_CHANNELS);
  const last = await pageAt(prefill, "c");
  expect(last.closed[0]).toContain("which are the most");
  expect(second.closed).toEqual([]);
});

test("an owner's leases without a request are no more than they may be", async () => {
  const prefill = prefillRooms();
  const page = await pageAt(prefill, "a");
  for (let lease = 0; lease <= MAX_OWNER_LEASES; lease++) {
    page.say({ type: "open", lease, room: `${lease}`, digest: "d" });
  }
  await until(() => expect(page.of("failed")).toHaveLength(1));
  expect(page.of("failed")[0]).toMatchObject({ lease: MAX_OWNER_LEASES });
  const other = await pageAt(prefill, "b");
  other.say({ type: "open", lease: 0, room: "other", digest: "d" });
  await until(() => expect(prefill.counts.awaited).toBe(MAX_OWNER_LEASES + 1));
});

test("pages that take nothing hold no server up", async () => {
  const prefill = prefillRooms(1);
  const page = await pageAt(prefill, "a");
  const room = prefill.open("1", "r", "a");
  void room.over.catch(() => {});
  const begun = room.begin(PROMPT);
  page.say({ type: "open", lease: 0, room: "1", digest: promptDigest(PROMPT) });
  page.say({ type: "want", lease: 0, first: 0 });
  await begun;
  const bytes = () => new Uint8Array(64);
  for (const first of [0, 1]) await room.take({ first, count: 1, bytes: bytes() });
  expect(prefill.counts.frames).toBe(2);
  const own = prefill.open("2");
  void own.over.catch(() => {});
  const sent: unknown[] = [];
  const channel = { send: (message: unknown) => sent.push(message) };
  own.pair({ channel, lease: 0, digest: promptDigest(PROMPT), formed: (given) => given });
  own.want(0);
  await own.begin(PROMPT);
  void own.take({ first: 0, count: 1, bytes: bytes() });
  await until(() => expect(sent).toHaveLength(1));
  expect(prefill.counts.frames).toBe(3);
});

test("a page that asks for no pages is left, and a decode server has its own time", async () => {
  const times = { ...TIMES, openTimeout: 80 };
  const prefill = new PrefillRooms({ layout: LAYOUT, key: "key", times });
  closing.push(() => prefill.close());
  const page = await pageAt(prefill, "a");
  const digest = promptDigest(PROMPT);
  const [mute, asking, server] = [
    prefill.open("1", "r", "a"),
    prefill.open("2", "s", "a"),
    prefill.open("3"),
  ];
  server.over.catch(() => {});
  server.pair({ channel: { send: () => {} }, lease: 0, digest, formed: (given) => given });
  for (const [lease, room] of [mute, asking].entries()) {
    page.say({ type: "open", lease, room: room.name, digest });
  }
  page.say({ type: "want", lease: 1, first: 0 });
  await expect(mute.over).rejects.toThrow("no pages were asked for within 0.08 s");
  expect(page.of("failed")).toMatchObject([{ lease: 0 }]);
  await new Promise((resolve) => setTimeout(resolve, 100));
  expect([asking.state, server.state]).toEqual(["waiting for input", "waiting for input"]);
});
