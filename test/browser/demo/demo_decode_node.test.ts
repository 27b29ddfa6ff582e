/** The demo's page lends its GPU to a router: pages of prompts arrive there, and it answers. */
import { afterAll, beforeAll, expect, test } from "vitest";
import type { Engine } from "../../../src/engine/engine.ts";
import { roundRobinPolicy } from "../../../src/router/policy/policy.ts";
import { type Demo, openDemo, serveDemo } from "../../support/browser/demo.ts";
import { openEngine } from "../../support/engines/engine.ts";
import { roleServer } from "../../support/router/pair_servers.ts";
import { postTo, type RunningRouter, routerTo } from "../../support/router/running_router.ts";
import { closeAll, serverOver } from "../../support/router/worker_servers.ts";
import { until } from "../../support/until.ts";

const KEY = "of the group";
const OPT_IN = { headers: { "x-wisp-decode-node": "allow" } };
/** One that drivers answer alike, with no two tokens as likely as each other. */
const BODY = {
  text: "There was a river that ran through the town. ".repeat(3),
  sampling_params: { temperature: 0, max_new_tokens: 24, ignore_eos: true },
};

let demo: Demo | string;
let engines: readonly Engine[] = [];
let router: RunningRouter;
let direct: string;

beforeAll(async () => {
  demo = await serveDemo();
  if (typeof demo === "string") return;
  engines = [await openEngine({ transfersPages: true }), await openEngine()];
  const key = ["--disaggregation-key", KEY];
  const prefill = await roleServer(engines[0]!, "prefill", [
    ...["--disaggregation-bootstrap-port", "0", ...key],
  ]);
  const pairPolicies = { prefill: roundRobinPolicy(), decode: roundRobinPolicy() };
  const allowedOrigins = [new URL(demo.address).origin];
  router = await routerTo([], { pairPolicies, nodesKey: KEY, allowedOrigins });
  const { bootstrapPort, url } = prefill;
  await router.checks.admit(router.workers.add(url, { role: "prefill", bootstrapPort }));
  direct = (await serverOver(engines[1]!)).url;
}, 240_000);

afterAll(async () => {
  await closeAll();
  for (const engine of engines) await engine.close();
  if (typeof demo !== "string") await demo.close();
});

async function newToken(): Promise<string> {
  const given = await fetch(`${router.url}/decode_node_token`, { method: "POST" });
  return ((await given.json()) as { token: string }).token;
}

const idsOf = async (answer: Response) =>
  ((await answer.json()) as { output_ids: readonly number[] }).output_ids;

test("the panel shows pages that arrive, and the page answers like one server", async (context) => {
  if (typeof demo === "string") return context.skip(demo);
  const { page } = await openDemo(demo);
  const button = (name: string) => page.getByRole("button", { name, exact: true });
  await page.goto(`${demo.address}?model=embedded`);
  await button("Send").waitFor();
  await button("Engine").click();
  const toggle = page.getByRole("switch", { name: "Answer for a router" });
  const arrived = page.locator("[data-figure=arrived]");
  const token = await newToken();
  await page.getByLabel("Router", { exact: true }).fill(router.url);
  await page.getByLabel("Token", { exact: true }).fill(token);
  await toggle.click();
  await arrived.waitFor();
  expect(await arrived.textContent()).toMatch(/^0 pages of 0 prompts arrived .*; 0 answers being/);
  expect(router.nodes!.names).toHaveLength(1);

  const right = await idsOf(await postTo(direct, "/generate", BODY));
  const answer = await postTo(router.url, "/generate", { ...BODY, stream: true }, OPT_IN);
  const reader = answer.body!.getReader();
  expect((await reader.read()).done).toBe(false);
  await arrived.filter({ hasText: /^[1-9]\d* pages? of 1 prompt arrived/ }).waitFor();
  let text = "";
  for (;;) {
    const { done, value } = await reader.read();
    if (done) break;
    text += new TextDecoder().decode(value);
  }
  const last = text.split("\n\n").findLast((event) => event.startsWith("data: {"))!;
  expect((JSON.parse(last.slice(6)) as { output_ids: readonly number[] }).output_ids).toEqual(
    right,
  );
  await arrived.filter({ hasText: /; 0 answers being written/ }).waitFor();

  await toggle.click();
  await arrived.waitFor({ state: "hidden" });
  await until(() => expect(router.nodes!.names).toEqual([]));
  // A token is good once.
  await toggle.click();
  await page.getByText("its token is none, or was used already").waitFor();
  await page.close();
}, 240_000);
