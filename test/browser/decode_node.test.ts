/** A page of Chromium as a decode node: it answers like one server, and may be closed within an answer. */
import type { Page } from "playwright-core";
import { afterAll, beforeAll, expect, type TestContext, test } from "vitest";
import type * as browserApi from "../../src/browser/index.ts";
import type { Engine } from "../../src/engine/engine.ts";
import { NODE_VERSION } from "../../src/router/nodes/node_messages.ts";
import { roundRobinPolicy } from "../../src/router/policy/policy.ts";
import { type ScriptedPage, servePage } from "../support/browser/scripted_page.ts";
import { openEngine } from "../support/engines/engine.ts";
import { type RoleServer, roleServer } from "../support/router/pair_servers.ts";
import { postTo, type RunningRouter, routerTo } from "../support/router/running_router.ts";
import { closeAll, serverOver } from "../support/router/worker_servers.ts";
import { until } from "../support/until.ts";

const PROGRAM = `
import * as wisp from "wisp-llm/browser";
Object.assign(globalThis, { wisp, arrived: [] });
`;
const KEY = "of the group";
const PAGES = { pageSize: 4, transfersPages: true, maxTotalTokens: 2048 } as const;
const OPT_IN = { headers: { "x-wisp-decode-node": "allow" } };
const BODY = {
  text: "There was a river that ran through the town. ".repeat(3),
  sampling_params: { temperature: 0, max_new_tokens: 64, ignore_eos: true },
};

/** What the page's own code sees. */
interface PageScope {
  readonly wisp: typeof browserApi;
  readonly arrived: browserApi.ArrivedPages[];
  node: browserApi.DecodeNode;
}

let served: ScriptedPage | string;
let engines: Engine[] = [];
let prefill: RoleServer;
let decode: RoleServer;
let direct: string;
let router: RunningRouter;

beforeAll(async () => {
  served = await servePage({ "main.js": PROGRAM });
  if (typeof served === "string") return;
  engines = [await openEngine(PAGES), await openEngine(PAGES), await openEngine({ pageSize: 4 })];
  const key = ["--disaggregation-key", KEY];
  prefill = await roleServer(engines[0]!, "prefill", [
    "--disaggregation-bootstrap-port",
    "0",
    ...key,
  ]);
  const { bootstrapPort } = prefill;
  const hosts = ["--disaggregation-prefill-hosts", `127.0.0.1:${bootstrapPort}`];
  decode = await roleServer(engines[1]!, "decode", [...hosts, ...key]);
  const pairPolicies = { prefill: roundRobinPolicy(), decode: roundRobinPolicy() };
  const allowedOrigins = [new URL(served.address).origin];
  router = await routerTo([], { pairPolicies, nodesKey: KEY, allowedOrigins });
  const { workers, checks } = router;
  await checks.admit(workers.add(prefill.url, { role: "prefill", bootstrapPort }));
  await checks.admit(workers.add(decode.url, { role: "decode" }));
  direct = (await serverOver(engines[2]!)).url;
}, 240_000);

afterAll(async () => {
  await closeAll();
  for (const engine of engines) await engine.close();
  if (typeof served !== "string") await served.close();
});

/** A page whose engine has joined the router. */
async function joinedPage(context: TestContext): Promise<Page> {
  if (typeof served === "string") return context.skip(served);
  const page = await served.browser.newPage();
  page.on("console", (message) => console.log("page:", message.text()));
  context.onTestFinished(() => page.close());
  await page.goto(served.address);
  await page.waitForFunction(() => "wisp" in globalThis);
  const answer = await fetch(`${router.url}/decode_node_token`, { method: "POST" });
  const { token } = (await answer.json()) as { token: string };
  await page.evaluate(
    async ([modelUrl, url, token, options]) => {
      const scope = globalThis as unknown as PageScope;
      const address = { kind: "url", url: modelUrl } as const;
      const engine = await scope.wisp.loadWorkerEngine(address, {
        ...options,
        onPages: (pages) => scope.arrived.push(pages),
      });
      scope.node = await scope.wisp.joinAsDecodeNode(engine, { url, token });
    },
    [served.modelUrl, router.url, token, PAGES] as const,
  );
  return page;
}

const outputOf = async (answer: Response) =>
  ((await answer.json()) as { output_ids: number[] }).output_ids;

test("a page answers like one server, and the answer is completed when it is closed", async (context) => {
  const page = await joinedPage(context);
  const before = decode.role.counts().opened;
  const right = await outputOf(await postTo(direct, "/generate", BODY));
  expect(right).toHaveLength(64);
  const routed = await postTo(router.url, "/generate", BODY, OPT_IN);
  expect(await outputOf(routed)).toEqual(right);
  expect(decode.role.counts().opened).toBe(before);
  const arrived = await page.evaluate(() => (globalThis as unknown as PageScope).arrived.at(-1)!);
  expect(arrived).toMatchObject({ rooms: 0, failed: 0, prompts: 1 });
  expect(arrived.pages).toBeGreaterThan(5);

  const plain = await postTo(router.url, "/generate", BODY);
  expect(await outputOf(plain)).toEqual(right);
  expect(decode.role.counts().opened).toBe(before + 1);

  const answer = await postTo(router.url, "/generate", { ...BODY, stream: true }, OPT_IN);
  const reader = answer.body!.getReader();
  const decoder = new TextDecoder();
  let text = "";
  for (let pieces = 0; ; pieces++) {
    const { done, value } = await reader.read();
    if (done) break;
    text += decoder.decode(value, { stream: true });
    if (pieces === 4) await page.close();
  }
  const events = text.split("\n\n").filter((event) => event.startsWith("data: {"));
  const ids = events.map((event) => JSON.parse(event.slice("data: ".length)).output_ids.length);
  expect(JSON.parse(events.at(-1)!.slice(6)).output_ids).toEqual(right);
  expect(ids).toEqual(right.map((_, i) => i + 1));
  expect(decode.role.counts().opened).toBe(before + 2);
  expect(
    (await fetch(`${router.url}/list_workers`).then((one) => one.json())).decode_nodes,
  ).toEqual([]);
  await until(() => {
    const { rooms, awaited, frames } = prefill.role.counts();
    const used = engines.map((engine) => engine.status().usedTokens);
    expect([rooms, awaited, frames, decode.role.counts().rooms, ...used]).toEqual(Array(7).fill(0));
  });
}, 240_000);

test("pages of other origins, and those without a token, do not join", async (context) => {
  if (typeof served === "string") return context.skip(served);
  const page = await served.browser.newPage();
  context.onTestFinished(() => page.close());
  await page.goto(served.address);
  const opened = (url: string) =>
    page.evaluate(
      ({ url, version }) =>
        new Promise<string>((resolve) => {
          const socket = new WebSocket(url);
          socket.onopen = () => socket.send(JSON.stringify({ type: "join", version, token: "a" }));
          socket.onclose = ({ reason }) => resolve(reason);
        }),
      { url, version: NODE_VERSION },
    );
  const address = router.url.replace("http", "ws");
  expect(await opened(`${address}/join_as_decode_node`)).toContain("its token is none");
  expect(await opened(`${address}/elsewhere`)).toBe("");
  const strange = await served.browser.newPage();
  context.onTestFinished(() => strange.close());
  await strange.goto(served.modelUrl);
  const refused = await strange.evaluate(
    (url) =>
      new Promise<boolean>((resolve) => {
        const socket = new WebSocket(url);
        socket.onopen = () => resolve(false);
        socket.onerror = () => resolve(true);
      }),
    `${address}/join_as_decode_node`,
  );
  expect(refused).toBe(true);
});
