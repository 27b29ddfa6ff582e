/** Decode nodes over real engines: only what clients allow goes there, and servers go on where they leave. */
import { afterAll, beforeAll, expect, test } from "vitest";
import { WebSocket } from "ws";
import {
  type ArrivedPages,
  withArrivingPrompts,
} from "../../src/browser/decode_node/arriving_prompts.ts";
import type { DecodeNode } from "../../src/browser/decode_node/decode_node.ts";
import { joinAsDecodeNode } from "../../src/browser/decode_node/join.ts";
import type { WorkerEngine } from "../../src/browser/worker/worker_engine.ts";
import type { Engine } from "../../src/engine/engine.ts";
import type { GenerationChunk } from "../../src/generation.ts";
import { roundRobinPolicy } from "../../src/router/policy/policy.ts";
import { layerOver } from "../../src/server/engine_layer.ts";
import { openEngine } from "../support/engines/engine.ts";
import { type RoleServer, roleServer } from "../support/router/pair_servers.ts";
import { postTo, type RunningRouter, routerTo } from "../support/router/running_router.ts";
import { closeAll, serverOver } from "../support/router/worker_servers.ts";
import { until } from "../support/until.ts";

const KEY = ["--disaggregation-key", "of the group"];
const OPT_IN = { headers: { "x-wisp-decode-node": "allow" } };

let engines: Engine[];
let prefill: RoleServer;
let decode: RoleServer;
let direct: string;
let router: RunningRouter;
let arrived: ArrivedPages | undefined;
const before = globalThis.WebSocket;

beforeAll(async () => {
  globalThis.WebSocket = WebSocket as unknown as typeof globalThis.WebSocket;
  const options = { pageSize: 4, transfersPages: true };
  engines = [
    await openEngine(options),
    await openEngine(options),
    await openEngine(options),
    await openEngine({ pageSize: 4 }),
  ];
  prefill = await roleServer(engines[0]!, "prefill", [
    ...["--disaggregation-bootstrap-port", "0"],
    ...KEY,
  ]);
  const { bootstrapPort } = prefill;
  decode = await roleServer(engines[1]!, "decode", [
    ...["--disaggregation-prefill-hosts", `127.0.0.1:${bootstrapPort}`],
    ...KEY,
  ]);
  const pairPolicies = { prefill: roundRobinPolicy(), decode: roundRobinPolicy() };
  router = await routerTo([], { pairPolicies, nodesKey: KEY[1]! });
  const { workers, checks } = router;
  await checks.admit(workers.add(prefill.url, { role: "prefill", bootstrapPort }));
  await checks.admit(workers.add(decode.url, { role: "decode" }));
  await until(async () => expect((await fetch(`${router.url}/readiness`)).status).toBe(200));
  direct = (await serverOver(engines[3]!)).url;
});
afterAll(async () => {
  await closeAll();
  for (const engine of engines) await engine.close();
  globalThis.WebSocket = before;
});

async function newToken(): Promise<string> {
  const answer = await fetch(`${router.url}/decode_node_token`, { method: "POST" });
  return ((await answer.json()) as { token: string }).token;
}

/** Chunks behind which answers of a page wait until it has left, so that it leaves within them. */
const WAITS_BEHIND = 12;
/** Events that a client has got when the page leaves. */
const EVENTS = 6;
let left: Promise<void> | undefined;

async function* untilLeft(
  chunks: AsyncIterable<GenerationChunk>,
): AsyncGenerator<GenerationChunk, undefined> {
  let count = 0;
  for await (const chunk of chunks) {
    yield chunk;
    count += 1;
    if (count === WAITS_BEHIND) await left;
  }
  return undefined;
}

/** What a page has, without the page. */
function pageEngine(): WorkerEngine {
  const served = withArrivingPrompts(engines[2]!, (pages) => {
    arrived = pages;
  });
  const held = layerOver(served, { generate: (request) => untilLeft(served.generate(request)) });
  return new Proxy(held, {
    get: (target, name) => (name === "takesPages" ? true : Reflect.get(target, name)),
  }) as unknown as WorkerEngine;
}

/** The answer to a request that a node begins and leaves. */
async function leftWithin(path: string, body: object): Promise<string> {
  const node = await join();
  const told = router.events.length;
  let letGo = () => {};
  left = new Promise((resolve) => {
    letGo = resolve;
  });
  const answer = await postTo(router.url, path, body, OPT_IN);
  let text = "";
  let hasLeft = false;
  for await (const bytes of answer.body!.pipeThrough(new TextDecoderStream())) {
    text += bytes;
    if (hasLeft || text.split("\n\n").length <= EVENTS) continue;
    hasLeft = true;
    await node.leave({ now: true });
    letGo();
  }
  left = undefined;
  const lines = router.events.slice(told).map(({ text: line }) => line);
  expect(lines.join("\n")).toContain("its decode node has left");
  return text;
}

async function join(): Promise<DecodeNode> {
  return joinAsDecodeNode(pageEngine(), { url: router.url, token: await newToken() });
}

const sampling_params = { temperature: 0, max_new_tokens: 24, ignore_eos: true };
const messages = [{ role: "user", content: "What is the capital of Japan?" }];
const chat = { messages, max_tokens: 40, temperature: 1, seed: 5 };

/** What does not follow the clock, the cache or chance. */
const bare = (text: string) =>
  text
    .replace(/"(created|cached_tokens|id)":("[^"]*"|[\d.e-]+)/g, "")
    .replace(/"e2e_latency":[\d.e-]+/g, "");

/** Requests that the decode server has begun so far. */
const asked = () => decode.role.counts().opened;

const nothingLeft = () =>
  until(() => {
    const { rooms, awaited, frames } = prefill.role.counts();
    const used = engines.map((engine) => engine.status().usedTokens);
    const left = [rooms, awaited, frames, decode.role.counts().rooms, ...used];
    expect(left).toEqual(left.map(() => 0));
  });

test("answers of a node are those of one server, for requests that allow it alone", async () => {
  const node = await join();
  const lists = async () => (await (await fetch(`${router.url}/list_workers`)).json()) as object;
  expect(await lists()).toMatchObject({ decode_nodes: [node.name] });
  const requests: readonly (readonly [string, object])[] = [
    [
      "/generate",
      { text: "Once upon a time", sampling_params, return_logprob: true, logprob_start_len: 0 },
    ],
    ["/generate", { text: ["One", "Two"], sampling_params }],
    ["/v1/chat/completions", { ...chat, stream: true }],
    ["/v1/chat/completions", { ...chat, n: 2 }],
  ];
  for (const [path, body] of requests) {
    const plain = await (await postTo(direct, path, body)).text();
    const servers = asked();
    const routed = await postTo(router.url, path, body, OPT_IN);
    expect([routed.status, bare(await routed.text())]).toEqual([200, bare(plain)]);
    expect(asked()).toBe(servers);
    await postTo(router.url, path, body).then((answer) => answer.text());
    expect(asked()).toBeGreaterThan(servers);
  }
  expect(arrived?.pages).toBeGreaterThan(4);
  expect(arrived).toMatchObject({ rooms: 0, failed: 0 });
  await node.leave();
  await until(async () => expect(await lists()).toMatchObject({ decode_nodes: [] }));
  await nothingLeft();
});

const CUT: readonly (readonly [string, object])[] = [
  ["/generate", { text: "It was a dark", sampling_params, stream: true }],
  // Every token is drawn again, as its log-probabilities are told.
  ["/generate", { text: "It was late", sampling_params, stream: true, return_logprob: true }],
  ["/v1/chat/completions", { ...chat, stream: true, stream_options: { include_usage: true } }],
  [
    "/v1/responses",
    { input: "Tell me", max_output_tokens: 24, temperature: 0, store: false, stream: true },
  ],
];

test.each(CUT)("a node leaves within %s %j, and the answer is completed", async (path, body) => {
  const plain = await (await postTo(direct, path, body)).text();
  const text = await leftWithin(path, body);
  const names = (told: string) =>
    told.replace(/"(item_id|id|created_at|completed_at)":("[^"]*"|[\d.]+)/g, "");
  expect(names(bare(text))).toBe(names(bare(plain)));
  // One answer has one name throughout, and one time of its making.
  for (const key of ["created", "created_at"]) {
    const times = [...text.matchAll(new RegExp(`"${key}":([\\d.]+)`, "g"))].map(([, at]) => at);
    expect(new Set(times).size).toBeLessThan(2);
  }
  if (path !== "/v1/responses") {
    expect(new Set([...text.matchAll(/"id":"([^"]*)"/g)].map(([, id]) => id)).size).toBe(1);
  }
  await nothingLeft();
});

test("a request without a seed goes on with its draws", async () => {
  const body = { messages, max_tokens: 60, temperature: 1.3, stream: true, logprobs: true };
  const text = await leftWithin("/v1/chat/completions", body);
  // Drawn again from the first token on: with other draws it would break off.
  expect(text).toMatch(/data: \[DONE\]\n\n$/);
  expect(text).not.toContain('"error"');
  await nothingLeft();
});

test("an aborted request ends at its node with what there is of it, and the page's own goes on", async () => {
  const node = await join();
  const endless = { ...sampling_params, max_new_tokens: 1900 };
  const own = new AbortController();
  const chunks = engines[2]!.generate({
    ...{ prompt: "Now", sampling: { maxNewTokens: 1900, ignoreEos: true }, signal: own.signal },
  });
  expect((await chunks.next()).done).toBe(false);
  const mine = { text: "On and on", rid: "mine", sampling_params: endless, stream: true };
  const aborted = /"finish_reason":\{"type":"abort".*data: \[DONE\]\n\n$/s;
  const response = { input: "Tell me", max_output_tokens: 1900, temperature: 0, stream: true };
  // The page has drawn it.
  const named = (text: string) => ({ rid: /"id":"(resp_[0-9a-f]{32})"/.exec(text)![1] });
  const cases: readonly (readonly [string, object, (text: string) => object, RegExp])[] = [
    ["/generate", mine, () => ({ rid: "mine" }), aborted],
    ["/generate", mine, () => ({ abort_all: true }), aborted],
    ["/v1/responses", { ...response, store: false }, named, /event: response\.incomplete/],
  ];
  for (const [path, body, abortOf, end] of cases) {
    const servers = asked();
    const answer = await postTo(router.url, path, body, OPT_IN);
    let text = "";
    let isAborted = false;
    for await (const bytes of answer.body!.pipeThrough(new TextDecoderStream())) {
      text += bytes;
      if (isAborted) continue;
      isAborted = true;
      expect((await postTo(router.url, "/abort_request", abortOf(text))).status).toBe(200);
    }
    expect(text).toMatch(end);
    // Of 1900.
    expect(text.match(/^data: /gm)!.length).toBeLessThan(1000);
    expect(asked()).toBe(servers);
  }
  expect((await chunks.next()).done).toBe(false);
  own.abort();
  await expect(async () => {
    for await (const _ of chunks);
  }).rejects.toThrow();
  await node.leave();
  await nothingLeft();
});

test("strangers are refused: a token is good for one page, once", async () => {
  const token = await newToken();
  const node = await joinAsDecodeNode(pageEngine(), { url: router.url, token });
  for (const other of [token, "", "0".repeat(32)]) {
    await expect(joinAsDecodeNode(pageEngine(), { url: router.url, token: other })).rejects.toThrow(
      "its token is none, or was used already",
    );
  }
  await node.leave();
  expect((await fetch(`${router.url}/join_as_decode_node`)).status).toBe(426);
  const other = await routerTo([], {
    pairPolicies: { prefill: roundRobinPolicy(), decode: roundRobinPolicy() },
  });
  const refused = await fetch(`${other.url}/decode_node_token`, { method: "POST" });
  expect([refused.status, await refused.text()]).toEqual([
    400,
    expect.stringContaining("--decode-nodes"),
  ]);
});
