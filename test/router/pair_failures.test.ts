/** Servers of a pair that fail in ways of their own: who is blamed, who is left, what clients are told. */
import { afterEach, describe, expect, test } from "vitest";
import { roundRobinPolicy } from "../../src/router/policy/policy.ts";
import { postTo, routerTo } from "../support/router/running_router.ts";
import {
  closeAll,
  type FailingServer,
  failingServer,
  freeUrl,
} from "../support/router/worker_servers.ts";
import { until } from "../support/until.ts";

afterEach(closeAll);

type Answer = Parameters<typeof failingServer>[0];

const answering =
  (status: number, body: string, headers: Readonly<Record<string, string>> = {}): Answer =>
  (response) =>
    void response.writeHead(status, { "content-type": "application/json", ...headers }).end(body);
const waiting: Answer = () => {};
const PREFILLED = answering(200, '{"prefilled":true}');
const ANSWERED = answering(200, '{"text":"right"}');

type Body = Record<string, unknown>;

/** Answers once it has read a request, whose body it keeps; those of the router itself have no id. */
const keeping =
  (bodies: Body[], answer: Answer): Answer =>
  async (response, request) => {
    const chunks: Buffer[] = [];
    for await (const chunk of request) chunks.push(chunk as Buffer);
    const body = JSON.parse(Buffer.concat(chunks).toString()) as Body;
    if (isClients(request)) bodies.push(body);
    answer(response, request);
  };

const isClients = ({ headers }: FailingServer["requests"][number]) =>
  headers["x-request-id"] !== undefined;

/** Whether the first request of a client has been left. */
const isLeft = ({ requests }: FailingServer) => requests.find(isClients)?.socket.destroyed;

async function pairOf(prefills: readonly string[], decodes: readonly string[]) {
  const pairPolicies = { prefill: roundRobinPolicy(), decode: roundRobinPolicy() };
  const router = await routerTo([], { pairPolicies });
  const { workers, checks } = router;
  const added = [
    ...prefills.map((url) => workers.add(url, { role: "prefill", bootstrapPort: 8990 })),
    ...decodes.map((url) => workers.add(url, { role: "decode" })),
  ];
  await Promise.all(added.map((worker) => checks.admit(worker)));
  return router;
}

const outcomes = ({ told }: { told: readonly (readonly [string, ...unknown[]])[] }) =>
  told.filter(([name]) => name === "outcome").map(([, url, outcome]) => [url, outcome]);

describe("a request of a pair", () => {
  test("goes to both whole, with where they meet at its end", async () => {
    const bodies: Body[] = [];
    const prefill = await failingServer(keeping(bodies, PREFILLED));
    const decode = await failingServer(keeping(bodies, ANSWERED));
    const router = await pairOf([prefill.url], [decode.url]);
    const strangers = '"bootstrap_ticket": "aa", "bootstrap_begun": {"seed": 1, "tokens": [[5]]}';
    const own = ` {"unknown": [1, 2], "bootstrap_room": 5, ${strangers}, "text": "a"} \n`;
    const answer = await postTo(router.url, "/generate", own);
    expect([answer.status, await answer.text()]).toEqual([200, '{"text":"right"}']);
    await until(() => expect(bodies).toHaveLength(2));
    expect(bodies[0]).toEqual(bodies[1]);
    expect(bodies[0]).toMatchObject({ unknown: [1, 2], text: "a", bootstrap_port: 8990 });
    expect(bodies[0]!.bootstrap_host).toBe("127.0.0.1");
    expect(Number.isSafeInteger(bodies[0]!.bootstrap_room)).toBe(true);
    expect(bodies[0]!.bootstrap_room).not.toBe(5);
    // Only the router says whose room it is, and what has begun.
    expect(bodies[0]).toMatchObject({ bootstrap_ticket: null, bootstrap_begun: null });
  });

  test("is tried with another prefill server, which alone is blamed, where one is not there", async () => {
    let asked = 0;
    const prefill = await failingServer(PREFILLED);
    // It waits for the pages of the one that is not there, unless it is left before it has heard of that.
    const decode = await failingServer((response, request) => {
      if (!isClients(request) || ++asked > 1) ANSWERED(response, request);
      else setTimeout(() => ANSWERED(response, request), 3_000);
    });
    const dead = await failingServer(PREFILLED);
    const router = await pairOf([dead.url, prefill.url], [decode.url]);
    await dead.kill();
    for (let i = 0; i < 2; i++) {
      const answer = await postTo(router.url, "/generate", { text: "a" });
      expect([answer.status, await answer.text()]).toEqual([200, '{"text":"right"}']);
    }
    expect(outcomes(router)).toContainEqual([dead.url, "failure"]);
    expect(outcomes(router)).not.toContainEqual([decode.url, "failure"]);
  });

  test("leaves the decode server at once where the prefill server refuses", async () => {
    const refusing = answering(400, '{"error":{"message":"no"}}');
    const [prefill, decode] = [await failingServer(refusing), await failingServer(waiting)];
    const router = await pairOf([prefill.url], [decode.url]);
    const answer = await postTo(router.url, "/generate", { text: "a" });
    expect([answer.status, await answer.text()]).toEqual([400, '{"error":{"message":"no"}}']);
    await until(() => expect(isLeft(decode)).toBe(true));
    expect(outcomes(router).filter(([, outcome]) => outcome === "failure")).toEqual([]);
  });

  test("blames the prefill server where the decode server says so", async () => {
    const lost = answering(500, "{}", { "x-wisp-failed-side": "prefill" });
    const [prefill, decode] = [await failingServer(waiting), await failingServer(lost)];
    const router = await pairOf([prefill.url], [decode.url]);
    const answer = await postTo(router.url, "/generate", { text: "a" });
    expect(answer.status).toBe(500);
    expect(outcomes(router)).toContainEqual([prefill.url, "failure"]);
    expect(outcomes(router)).not.toContainEqual([decode.url, "failure"]);
  });

  test("ends with 502 where the decode server breaks off, and leaves the prefill server", async () => {
    const breaking: Answer = (response) => void response.socket?.destroy();
    const [prefill, decode] = [await failingServer(waiting), await failingServer(breaking)];
    const router = await pairOf([prefill.url], [decode.url]);
    const answer = await postTo(router.url, "/generate", { text: "a" });
    expect(answer.status).toBe(502);
    await until(() => expect(isLeft(prefill)).toBe(true));
    expect(outcomes(router)).toContainEqual([decode.url, "failure"]);
    expect(outcomes(router)).not.toContainEqual([prefill.url, "failure"]);
  });

  test("ends at both when its client leaves", async () => {
    const [prefill, decode] = [await failingServer(waiting), await failingServer(waiting)];
    const router = await pairOf([prefill.url], [decode.url]);
    const leaving = new AbortController();
    const { signal } = leaving;
    const asked = postTo(router.url, "/generate", { text: "a" }, { signal });
    const both = () => [isLeft(prefill), isLeft(decode)];
    await until(() => expect(both()).toEqual([false, false]));
    leaving.abort();
    await expect(asked).rejects.toThrow();
    await until(() => expect(both()).toEqual([true, true]));
  });

  test("is refused where it is compressed, or no object", async () => {
    const [prefill, decode] = [await failingServer(PREFILLED), await failingServer(ANSWERED)];
    const router = await pairOf([prefill.url], [decode.url]);
    const headers = { "content-encoding": "gzip" };
    const packed = await postTo(router.url, "/generate", new Uint8Array([1, 2]), { headers });
    expect([packed.status, await packed.text()]).toEqual([
      400,
      expect.stringContaining("Cannot use content-encoding"),
    ]);
    expect((await postTo(router.url, "/generate", "[1]")).status).toBe(400);
  });
});

test("/add_worker, /list_workers, /health and /readiness know roles", async () => {
  const [prefill, decode] = [await failingServer(PREFILLED), await failingServer(ANSWERED)];
  const router = await pairOf([], []);
  const ask = (path: string, method = "GET") => fetch(router.url + path, { method });
  expect((await ask("/readiness")).status).toBe(503);
  const wrong = await ask(`/add_worker?url=${prefill.url}`, "POST");
  expect([wrong.status, await wrong.text()]).toEqual([
    400,
    expect.stringContaining("its type must be prefill or decode"),
  ]);
  const bad = await ask(`/add_worker?url=${prefill.url}&type=prefill&bootstrap_port=x`, "POST");
  expect(await bad.text()).toContain("Invalid bootstrap port: x. Must be a number or 'none'");
  const added = `/add_worker?url=${prefill.url}&type=prefill&bootstrap_port=8998`;
  expect((await ask(added, "POST")).status).toBe(200);
  expect((await ask(`/add_worker?url=${decode.url}&type=decode`, "POST")).status).toBe(200);
  expect(await (await ask("/list_workers")).json()).toMatchObject({
    urls: [prefill.url, decode.url],
  });
  await until(async () => expect((await ask("/readiness")).status).toBe(200));
  expect(await (await ask("/readiness")).json()).toEqual({
    status: "ready",
    prefill: { healthy: 1, total: 1 },
    decode: { healthy: 1, total: 1 },
  });
  const gone = await freeUrl();
  router.workers.add(gone, { role: "decode" });
  expect(await (await ask("/health")).text()).toBe(`Unhealthy servers: ["Decode: ${gone}"]`);
});

test("a pair is ready once it has answered together, of which servers that are healthy tell nothing", async () => {
  const [prefill, decode] = [await failingServer(PREFILLED), await failingServer(waiting)];
  const router = await pairOf([prefill.url], [decode.url]);
  const readiness = async () => (await fetch(`${router.url}/readiness`)).status;
  await until(() => expect([prefill.requests.length, decode.requests.length]).toEqual([1, 1]));
  expect(router.workers.all.map(({ isAvailable }) => isAvailable)).toEqual([true, true]);
  expect(await readiness()).toBe(503);
  const broken = await failingServer(answering(500, '{"error":"no pages come"}'));
  await router.checks.admit(router.workers.add(broken.url, { role: "decode" }));
  const told = () => router.events.map(({ text }) => text).join("\n");
  await until(() =>
    expect(told()).toContain(
      `Prefill server ${prefill.url} and decode server ${broken.url} do not answer together: 500: {"error":"no pages come"}`,
    ),
  );
  expect(await readiness()).toBe(503);
  const works = await failingServer(ANSWERED);
  await router.checks.admit(router.workers.add(works.url, { role: "decode" }));
  await until(async () => expect(await readiness()).toBe(200));
  expect(told()).toContain(`decode server ${works.url} answer together`);
});
