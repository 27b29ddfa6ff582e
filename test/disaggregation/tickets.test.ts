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
      until(() => expect(own.state).toBe("waiting for input")).then(async () => {
        await new Promise((resolve) => setTimeout(resolve, 20));
        return own.error?.message;
      }),
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
