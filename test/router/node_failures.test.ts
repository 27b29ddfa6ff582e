/** What a decode node says before it leaves: servers go on with what its client has got, and are not blamed. */
import { afterEach, expect, test } from "vitest";
import { WebSocket } from "ws";
import { NODE_VERSION, numbered } from "../../src/router/nodes/node_messages.ts";
import { roundRobinPolicy } from "../../src/router/policy/policy.ts";
import { postTo, routerTo } from "../support/router/running_router.ts";
import { closeAfterwards, closeAll, failingServer } from "../support/router/worker_servers.ts";
import { until } from "../support/until.ts";

afterEach(closeAll);

type Answer = Parameters<typeof failingServer>[0];
type Say = (message: object) => void;

const EVENT = 'data: {"text":"a"}\n\n';
const OTHER = 'data: {"text":"b"}\n\n';

/** A router to a pair, and to a page that answers the one request so. */
async function routerWithNode(
  decoding: Answer,
  page: (say: Say, send: (t: string) => void) => void,
  fields: object = {},
) {
  const bodies: Record<string, unknown>[] = [];
  const prefill = await failingServer((response) => response.end("{}"));
  const decode = await failingServer(async (response, request) => {
    const chunks: Buffer[] = [];
    for await (const chunk of request) chunks.push(chunk as Buffer);
    if (request.headers["x-request-id"] !== undefined) {
      bodies.push(JSON.parse(Buffer.concat(chunks).toString()));
    }
    decoding(response, request);
  });
  const pairPolicies = { prefill: roundRobinPolicy(), decode: roundRobinPolicy() };
  const origin = "http://page";
  const router = await routerTo([], { nodesKey: "k", allowedOrigins: [origin], pairPolicies });
  const { workers, checks, nodes } = router;
  await checks.admit(workers.add(prefill.url, { role: "prefill", bootstrapPort: 8990 }));
  await checks.admit(workers.add(decode.url, { role: "decode" }));
  const url = `${router.url.replace("http", "ws")}/join_as_decode_node`;
  const socket = new WebSocket(url, { origin });
  closeAfterwards(async () => socket.terminate());
  const say: Say = (message) => socket.send(JSON.stringify(message));
  const send = (text: string) => socket.send(numbered(1, new TextEncoder().encode(text)));
  const heard: Record<string, unknown>[] = [];
  socket.on("message", (message, isBytes) => {
    if (isBytes) page(say, send);
    else heard.push(JSON.parse(String(message)));
  });
  socket.on("open", () =>
    say({ type: "join", version: NODE_VERSION, token: nodes!.newToken().token }),
  );
  await until(() => expect(nodes!.names).toHaveLength(1));
  const ask = () =>
    postTo(
      router.url,
      "/generate",
      { text: "a", stream: true, ...fields },
      { headers: { "x-wisp-decode-node": "allow" } },
    );
  const outcomes = () =>
    router.told.filter(([name]) => name === "outcome").map(([, at, outcome]) => [at, outcome]);
  return { router, decode, bodies, ask, heard, outcomes };
}

const HEAD = { type: "head", id: 1, status: 200, headers: { "content-type": "text/event-stream" } };
const TOKENS = { type: "tokens", id: 1, answer: 0, tokens: [2 ** 31] };
const FAILED = { type: "failed", id: 1, problem: "it is closed" };

const streaming =
  (text: string): Answer =>
  (response) =>
    void response.writeHead(200, { "content-type": "text/event-stream" }).end(text);

test("tokens of which the client has got nothing count for nothing", async () => {
  const { bodies, ask, outcomes } = await routerWithNode(streaming(EVENT), (say) => {
    for (const message of [TOKENS, FAILED]) say(message);
  });
  expect(await (await ask()).text()).toBe(EVENT);
  expect(bodies.map(({ bootstrap_begun: begun }) => begun)).toEqual([
    { seed: expect.any(Number), tokens: [] },
  ]);
  // Figures have one name for nodes, whose own ones are as many as there were nodes.
  expect(outcomes()).toContainEqual(["node://", "failure"]);
});

test("a server that goes on otherwise than the node has begun is not blamed", async () => {
  const { decode, bodies, ask, outcomes } = await routerWithNode(
    streaming(OTHER + OTHER),
    (say, send) => {
      for (const message of [HEAD, TOKENS]) say(message);
      send(EVENT);
      say(FAILED);
    },
  );
  const text = await (await ask()).text();
  expect(text).toContain(EVENT);
  expect(text).toContain("begins otherwise");
  expect(bodies[0]!.bootstrap_begun).toMatchObject({ tokens: [[2 ** 31]] });
  expect(outcomes()).not.toContainEqual([decode.url, "failure"]);
});

test("busy servers are waited for where an answer is to go on", async () => {
  let asked = 0;
  const { router, ask, outcomes, decode } = await routerWithNode(
    (response, request) => {
      if (request.headers["x-request-id"] !== undefined) asked += 1;
      if (asked === 0 || asked > 2) streaming(EVENT + OTHER)(response, request);
      else response.writeHead(asked === 1 ? 429 : 503).end("{}");
    },
    (say, send) => {
      say(HEAD);
      send(EVENT);
      say(FAILED);
    },
  );
  expect(await (await ask()).text()).toBe(EVENT + OTHER);
  expect(asked).toBe(3);
  expect(router.told.filter(([name]) => name === "retry")).toHaveLength(2);
  expect(outcomes()).not.toContainEqual([decode.url, "failure"]);
});

test("ids that are longer than those of requests are told to no node, which would leave", async () => {
  // As long as ids are, with the items of a batch.
  const rid = "r".repeat(1024);
  for (const [own, asked] of [
    [rid, [rid, `${rid}_7`]],
    [`${rid}r`, []],
    ["r".repeat(9000), []],
  ] as const) {
    let [isThere, leave] = [false, () => {}];
    const { router, ask, heard } = await routerWithNode(
      streaming(EVENT),
      (say) => {
        isThere = true;
        leave = () => say(FAILED);
      },
      { rid: own },
    );
    const answer = ask();
    await until(() => expect(isThere).toBe(true));
    const ends = [...new Set([own, rid, `${own}_7`])];
    for (const id of ends) await postTo(router.url, "/abort_request", { rid: id });
    await postTo(router.url, "/abort_request", { abort_all: true });
    const aborts = () => heard.filter(({ type }) => type === "abort_request");
    await until(() => expect(aborts().at(-1)).toEqual({ type: "abort_request" }));
    expect(
      aborts()
        .slice(0, -1)
        .map(({ rid: told }) => told),
    ).toEqual(asked);
    leave();
    expect(await (await answer).text()).toBe(EVENT);
  }
});
