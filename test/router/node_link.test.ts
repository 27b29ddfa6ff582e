/** What a page of a stranger's browser may not say to a router ends its connection, and nothing else. */
import { afterEach, expect, test, vi } from "vitest";
import type { Channel, ChannelEvents, ChannelMessage } from "../../src/disaggregation/channel.ts";
import { BodyMemory } from "../../src/http/body_memory.ts";
import { EventCutter, EventRecord, renamed } from "../../src/router/nodes/answer_events.ts";
import { DecodeNodes } from "../../src/router/nodes/decode_nodes.ts";
import { type GivenIds, givenIds } from "../../src/router/nodes/given_ids.ts";
import {
  MAX_BEGUN_ANSWERS,
  MAX_DECODE_NODES,
  MAX_NODE_BODY_BYTES,
  MAX_NODE_BYTES_AHEAD,
  MAX_NODE_EVENT,
  MAX_NODE_MESSAGE_BYTES,
  MAX_NODE_PATH,
  MAX_NODE_REQUESTS,
  MAX_NODE_TOKENS,
} from "../../src/router/nodes/limits.ts";
import { BegunAnswers, NodeAnswer, SILENCE_TIME } from "../../src/router/nodes/node_answer.ts";
import { NODE_VERSION, numbered } from "../../src/router/nodes/node_messages.ts";

/** The page's end, as the test speaks for it. */
class PageEnd implements Channel {
  readonly heard: string[] = [];
  events!: ChannelEvents;
  closed: string | undefined;
  listen(events: ChannelEvents): void {
    this.events = events;
  }
  send(message: ChannelMessage): void {
    if (typeof message === "string") this.heard.push(message);
  }
  close(reason: string): void {
    this.closed = reason;
  }
  say(message: object): void {
    this.events.onMessage(JSON.stringify(message));
  }
}

afterEach(() => void vi.useRealTimers());

const optIn = new Request("http://r/", { headers: { "x-wisp-decode-node": "allow" } });
const place = { host: "p", port: 1, room: "5" };

function joined(ids: GivenIds = () => true) {
  const nodes = new DecodeNodes({ key: "k", onEvent: () => {} });
  const page = new PageEnd();
  nodes.accept(page);
  page.say({ type: "join", version: NODE_VERSION, token: nodes.newToken().token });
  const node = nodes.choose(optIn, new Uint8Array(2))!;
  const ask = (signal = new AbortController().signal, headers = {}) =>
    node.link.ask(
      { url: "node://a/generate?b", method: "POST", headers, body: new Uint8Array(2), signal },
      { begun: new BegunAnswers(1), ids, prefilled: Promise.resolve(), ...place },
    );
  return { nodes, page, node, ask };
}

const HEAD = { type: "head", id: 1, status: 200, headers: { "content-type": "application/json" } };
const bytes = (id: number, length: number) => numbered(id, new Uint8Array(length));

const WRONG: Readonly<Record<string, (page: PageEnd) => void>> = {
  "no JSON": (page) => page.events.onMessage("{"),
  "another type": (page) => page.say({ type: "request", id: 1 }),
  "a second join": (page) => page.say({ type: "join", version: NODE_VERSION, token: "" }),
  "bytes before a head": (page) => page.events.onMessage(bytes(1, 5)),
  "bytes without a number": (page) => page.events.onMessage(new Uint8Array(3)),
  "two heads": (page) => {
    for (const head of [HEAD, HEAD]) page.say(head);
  },
  "a status that is none": (page) => page.say({ ...HEAD, status: 99 }),
  "a page as an answer": (page) => page.say({ ...HEAD, headers: { "content-type": "text/html" } }),
  "an end before a head": (page) => page.say({ type: "end", id: 1 }),
  "more than it may send": (page) => {
    page.say(HEAD);
    const most = MAX_NODE_BYTES_AHEAD + MAX_NODE_MESSAGE_BYTES;
    for (let sent = 0; sent <= most; sent += 2 ** 16) page.events.onMessage(bytes(1, 2 ** 16));
  },
  "tokens that are none": (page) => page.say({ type: "tokens", id: 1, answer: 0, tokens: [-1] }),
  "tokens of no answer": (page) =>
    page.say({ type: "tokens", id: 1, answer: MAX_BEGUN_ANSWERS, tokens: [1] }),
  "too many tokens": (page) => {
    const tokens = Array(2 ** 15).fill(1);
    for (let i = 0; i < 5; i++) page.say({ type: "tokens", id: 1, answer: 0, tokens });
  },
};

test.each(Object.entries(WRONG))("%s ends it", async (_, say) => {
  const { nodes, page, ask } = joined();
  const answer = ask().then(async ({ body }) => {
    for (;;) await body.read();
  });
  say(page);
  await expect(answer).rejects.toThrow();
  expect(page.closed).toBeDefined();
  expect(nodes.names).toEqual([]);
});

test("of its headers a client gets those that an answer needs, and of its bytes all", async () => {
  const { page, ask } = joined();
  const asked = ask();
  page.say({
    ...HEAD,
    headers: {
      ...{ ...HEAD.headers, "set-cookie": "a=b" },
      // It would open breakers of servers, and have no other worker asked.
      ...{ "x-wisp-failed-side": "prefill", "x-should-retry": "false" },
    },
  });
  const { headers, body } = await asked;
  expect(headers).toEqual([["content-type", "application/json"]]);
  page.events.onMessage(numbered(1, Uint8Array.of(1, 2)));
  expect(await body.read()).toEqual(Uint8Array.of(1, 2));
  expect(JSON.parse(page.heard.at(-1)!)).toEqual({ type: "taken", id: 1, bytes: 2 });
  page.say({ type: "end", id: 1 });
  expect(await body.read()).toBeUndefined();
});

test("a node is told no key and no other header of a client than an answer needs", () => {
  const { page, ask } = joined();
  const told = {
    ...{ "content-type": "application/json", accept: "text/event-stream" },
    ...{ "anthropic-version": "2023-06-01", "x-request-id": "r" },
  };
  const secret = {
    ...{ authorization: "Bearer key", "x-api-key": "key", "Api-Key": "key", cookie: "a=b" },
    ...{ "x-forwarded-for": "10.0.0.1", "x-wisp-decode-node": "allow" },
  };
  void ask(undefined, { ...secret, ...told }).catch(() => {});
  expect(JSON.parse(page.heard.at(-1)!).headers).toEqual(told);
});

test("a node gets no more requests than it may have, and those that are left are told", async () => {
  const { nodes, page, ask } = joined();
  const leaving = new AbortController();
  const first = ask(leaving.signal);
  for (let i = 1; i < MAX_NODE_REQUESTS; i++) void ask().catch(() => {});
  expect(nodes.choose(optIn, new Uint8Array(2))).toBeUndefined();
  leaving.abort();
  await expect(first).rejects.toThrow();
  expect(page.heard.map((text) => JSON.parse(text).type)).toContain("abort");
  expect(nodes.choose(optIn, new Uint8Array(MAX_NODE_BODY_BYTES + 1))).toBeUndefined();
  expect(nodes.choose(new Request("http://r/"), new Uint8Array(2))).toBeUndefined();
  const far = new Request(`http://r/?${"a".repeat(MAX_NODE_PATH)}`, optIn);
  expect(nodes.choose(far, new Uint8Array(2))).toBeUndefined();
  expect(nodes.choose(optIn, new Uint8Array(2))).toBeDefined();
  page.say({ type: "leave" });
  expect(nodes.choose(optIn, new Uint8Array(2))).toBeUndefined();
});

test("there are no more nodes and tokens than the most", () => {
  const nodes = new DecodeNodes({ key: "k", onEvent: () => {} });
  const pages = Array.from({ length: MAX_DECODE_NODES + 1 }, () => {
    const page = new PageEnd();
    nodes.accept(page);
    return page;
  });
  expect(pages.map(({ closed }) => closed !== undefined).indexOf(true)).toBe(MAX_DECODE_NODES);
  for (let i = 0; i < MAX_NODE_TOKENS; i++) nodes.newToken();
  expect(() => nodes.newToken()).toThrow("which are the most");
  nodes.close();
});

test("events are cut, compared without names and times, and get the names of others", () => {
  const cutter = new EventCutter("\n\n");
  const event = (id: string, text: string) =>
    `data: {"id":"${id}","text":"${text}","created":1700000001}\n\n`;
  const [one, other] = [event("chatcmpl-one", "a"), event("chatcmpl-two", "a")];
  const raw = new TextEncoder().encode(`${one}${one}x`);
  expect([...cutter.push(raw.slice(0, 20)), ...cutter.push(raw.slice(20))]).toEqual([one, one]);
  expect(cutter.rest).toBe("x");
  const recordOf = (...events: string[]) => {
    const record = new EventRecord();
    for (const each of events) record.add(each);
    return record;
  };
  const [sent, again] = [recordOf(one, one), recordOf(other, other)];
  expect(again.digest).toBe(sent.digest);
  expect(recordOf(one, event("chatcmpl-one", "b")).digest).not.toBe(sent.digest);
  expect(recordOf(one, event("chatcmpl-two", "a")).digest).not.toBe(sent.digest);
  expect(renamed(event("chatcmpl-two", "b"), again.names, sent.names)).toBe(
    event("chatcmpl-one", "b"),
  );
});

test("names are written as they are, and only short ones in place of their kind", () => {
  const event = (id: unknown) => `data: {"id":${JSON.stringify(id)},"text":"b"}\n\n`;
  const strange = "chat$&$'$`$$";
  expect(renamed(event("chatcmpl-two"), ["chatcmpl-two"], [strange])).toBe(event(strange));
  expect(renamed('{"id":12345678}', [12345678], ['1,"text":"x'])).toBe('{"id":12345678}');
  const record = new EventRecord();
  record.add(event("a".repeat(257)));
  record.add(event("a".repeat(256)));
  expect(record.names).toEqual(["a".repeat(256)]);
});

test("an event without an end fails its worker", () => {
  const cutter = new EventCutter("\n\n");
  const piece = new TextEncoder().encode("a".repeat(2 ** 21));
  for (let length = 0; length < MAX_NODE_EVENT; length += 2 ** 21) {
    expect(cutter.push(piece)).toEqual([]);
  }
  expect(() => cutter.push(piece)).toThrow("an event is too long");
});

test("the second answer of a request may have the first tokens", () => {
  const begun = new BegunAnswers(1);
  begun.take(2, [7]);
  begun.take(0, [5, 6]);
  expect(begun.tokens).toEqual([[5, 6], [], [7]]);
});

test("a node that says nothing of what is awaited is left, and one whose client is behind is not", async () => {
  vi.useFakeTimers();
  const left: string[] = [];
  const answerOf = (name: string, prefilled: Promise<unknown> = Promise.resolve()) =>
    new NodeAnswer({
      ...{ begun: new BegunAnswers(1), prefilled, taken: () => {}, leave: () => left.push(name) },
    });
  let tellPrefilled = () => {};
  const prefilled = new Promise<void>((resolve) => {
    tellPrefilled = resolve;
  });
  const [mute, slow, waits] = [answerOf("mute"), answerOf("slow"), answerOf("waits", prefilled)];
  waits.hear({ type: "head", id: 2, status: 200, headers: {} });
  const first = waits.read();
  await vi.advanceTimersByTimeAsync(0);
  const head = { type: "head", id: 1, status: 200, headers: {} } as const;
  slow.hear({ type: "tokens", id: 1, answer: 0, tokens: [1] });
  vi.advanceTimersByTime(SILENCE_TIME - 1);
  slow.hear({ type: "tokens", id: 1, answer: 0, tokens: [2] });
  vi.advanceTimersByTime(1);
  await expect(mute.answer).rejects.toThrow("it says nothing for 60 s");
  slow.hear(head);
  // Nothing is awaited.
  vi.advanceTimersByTime(2 * SILENCE_TIME);
  expect(left).toEqual(["mute"]);
  const read = slow.read();
  slow.take(new Uint8Array(1));
  expect(await read).toHaveLength(1);
  const next = slow.read();
  vi.advanceTimersByTime(SILENCE_TIME);
  await expect(next).rejects.toThrow("it says nothing for 60 s");
  expect(left).toEqual(["mute", "slow"]);
  // Its prompt takes long, which is not the node's fault.
  tellPrefilled();
  await vi.advanceTimersByTimeAsync(SILENCE_TIME - 1);
  expect(left).toEqual(["mute", "slow"]);
  vi.advanceTimersByTime(1);
  await expect(first).rejects.toThrow("it says nothing for 60 s");
});

test("a request that is aborted is aborted at the node that has it, and no other node is told its id", async () => {
  const idsOf = (body: object) => {
    const request = new Request("http://r/");
    const share = new BodyMemory(2 ** 20).of(request);
    const bytes = new TextEncoder().encode(JSON.stringify(body));
    return givenIds(bytes, { signal: request.signal, share });
  };
  const drawn = "0123456789abcdef".repeat(2);
  const ofOthers = [`msg_${drawn}`, `resp_${drawn}`];
  const [one, many] = [await idsOf({ rid: "one" }), await idsOf({ rid: ["a", "b_7"] })];
  const asked = [
    "one",
    "one_12",
    "a",
    "b_7",
    "b",
    "one_",
    drawn,
    ...ofOthers,
    `chatcmpl-${drawn}`,
    "",
  ];
  // Nothing is drawn: those of that form are ids of other clients.
  expect(asked.filter(one)).toEqual(["one", "one_12"]);
  expect(asked.filter(many)).toEqual(["a", "b_7"]);
  for (const body of [{}, [], { rid: null }]) {
    expect(asked.filter(await idsOf(body))).toEqual([drawn, ...ofOthers]);
  }
  // Several answers to one prompt have ids of their own.
  for (const several of [
    { n: 2 },
    { sampling_params: { n: 2 } },
    { sampling_params: [{ n: 2 }] },
  ]) {
    expect(asked.filter(await idsOf({ rid: "b", ...several }))).toContain(drawn);
    expect(asked.filter(await idsOf({ rid: "b", ...several }))).toContain("b_7");
  }

  const { nodes, page, ask } = joined(one);
  const aborts = () => page.heard.map((text) => JSON.parse(text)).filter(isAbort);
  const isAbort = ({ type }: { type: string }) => type === "abort_request";
  nodes.abort();
  void ask().catch(() => {});
  for (const rid of ["two", "one", undefined]) nodes.abort(rid);
  expect(aborts()).toEqual([{ type: "abort_request", rid: "one" }, { type: "abort_request" }]);
  page.say({ ...HEAD });
  page.say({ type: "end", id: 1 });
  nodes.abort();
  expect(aborts()).toHaveLength(2);
});
