import { describe, expect, test } from "vitest";
import { createApp } from "../../../src/server/app.ts";
import { ScriptedEngine } from "../../support/engines/scripted_engine.ts";
import { errorMessage, post } from "../../support/server/http_client.ts";
import { until } from "../../support/until.ts";

const MANY = Array.from({ length: 1000 }, () => "a");
/** A request of few bytes for a great many answers, for each endpoint. */
const FLOODS: readonly (readonly [path: string, body: (n: number) => object])[] = [
  ["/generate", (n) => ({ text: MANY, sampling_params: { n } })],
  ["/generate", (n) => ({ input_ids: MANY.map(() => [5]), sampling_params: { n } })],
  ["/v1/completions", (n) => ({ prompt: MANY, n })],
  ["/v1/chat/completions", (n) => ({ messages: [{ role: "user", content: "a" }], n })],
];

describe("answers that one request asks for", () => {
  test.each(FLOODS)("%s refuses more than may ever run and wait (%#)", async (path, body) => {
    const engine = new ScriptedEngine({ maxQueuedRequests: 16 });
    const response = await post(createApp(engine), path, body(128));
    expect(response.status).toBe(400);
    expect(await errorMessage(response)).toMatch(
      /^Cannot take (1000|128) answers at once: 32 may run and 16 wait$/,
    );
    expect([engine.requests, engine.tokenized]).toEqual([[], []]);
  });

  test("are counted over all samples before any is made", async () => {
    const engine = new ScriptedEngine({ maxQueuedRequests: 1024 });
    const body = { text: MANY, sampling_params: { n: 128 } };
    const response = await post(createApp(engine), "/generate", body);
    expect(response.status).toBe(400);
    expect(await errorMessage(response)).toContain("Cannot take 128000 answers at once");
    expect(engine.requests).toEqual([]);
  });

  test("wait for room that others have now: 503", async () => {
    let release = () => {};
    const gate = new Promise<void>((resolve) => {
      release = resolve;
    });
    const engine = new ScriptedEngine({
      maxQueuedRequests: 8,
      script: () => ({ gate: (chunk) => (chunk === 1 ? gate : Promise.resolve()) }),
    });
    const app = createApp(engine);
    const ask = (n: number) =>
      post(app, "/generate", { text: "abc", sampling_params: { n, max_new_tokens: 2 } });
    const first = ask(30);
    await until(() => expect(engine.running).toHaveLength(30));
    const second = await ask(11);
    expect([second.status, await errorMessage(second)]).toEqual([
      503,
      "The request queue is full.",
    ]);
    expect(engine.requests).toHaveLength(30);
    const third = ask(10);
    release();
    expect([(await first).status, (await third).status]).toEqual([200, 200]);
  });
});
