/** `store_prefix` of all endpoints, and `/flush_cache?stored=`. */
import { expect, test } from "vitest";
import { createApp } from "../../../src/server/app.ts";
import { ScriptedEngine } from "../../support/engines/scripted_engine.ts";
import { errorMessage, post } from "../../support/server/http_client.ts";

const ENDPOINTS = [
  ["/generate", { text: "a" }],
  ["/v1/chat/completions", { messages: [{ role: "user", content: "a" }] }],
  ["/v1/completions", { prompt: "a" }],
] as const;

const storing = () => new ScriptedEngine({ model: { storesPrefixes: true } });

test.each(ENDPOINTS)("%s stores a prompt, or its beginning", async (path, body) => {
  const stored = async (fields: object) => {
    const engine = storing();
    expect((await post(createApp(engine), path, { ...body, ...fields })).status).toBe(200);
    return engine.requests.map(({ storePrefix }) => storePrefix);
  };
  for (const store_prefix of [true, 64, 5000]) {
    expect(await stored({ store_prefix })).toEqual([store_prefix]);
  }
  for (const store_prefix of [undefined, null, false]) {
    expect(await stored({ store_prefix })).toEqual([undefined]);
  }
});

test.each(ENDPOINTS)("%s refuses what is no prefix", async (path, body) => {
  const app = createApp(storing());
  for (const store_prefix of [0, 63, 64.5, -1, "true", []]) {
    const response = await post(app, path, { ...body, store_prefix });
    expect(response.status).toBe(400);
    expect(await errorMessage(response)).toMatch(
      /^store_prefix must be true, false or a whole number of at least 64, got /,
    );
  }
});

test.each(ENDPOINTS)("%s refuses to store where nothing is kept", async (path, body) => {
  const app = createApp(new ScriptedEngine());
  const response = await post(app, path, { ...body, store_prefix: true });
  expect(response.status).toBe(400);
  expect(await errorMessage(response)).toBe(
    "Cannot use store_prefix: this server keeps no prefixes",
  );
  expect((await post(app, path, { ...body, store_prefix: false })).status).toBe(200);
});

test("/generate stores all prompts of a batch, and no embeddings", async () => {
  const engine = storing();
  const app = createApp(engine);
  await post(app, "/generate", { text: ["a", "b"], store_prefix: 100 });
  expect(engine.requests.map(({ storePrefix }) => storePrefix)).toEqual([100, 100]);
  const input_embeds = [new Array(engine.model.hiddenSize).fill(0)];
  const response = await post(app, "/generate", { input_embeds, store_prefix: true });
  expect(response.status).toBe(400);
  expect(await errorMessage(response)).toBe("Cannot use store_prefix: input_embeds are not stored");
});

test("/flush_cache deletes what is stored when it is told to", async () => {
  const engine = storing();
  const app = createApp(engine);
  const flush = (query: string) => app.request(`/flush_cache${query}`, { method: "POST" });
  for (const query of ["", "?stored=false", "?stored=true"]) {
    expect((await flush(query)).status).toBe(200);
  }
  expect(engine.flushes).toEqual([{ stored: false }, { stored: false }, { stored: true }]);
  const wrong = await flush("?stored=1");
  expect(wrong.status).toBe(400);
  expect(await errorMessage(wrong)).toBe("stored must be true or false, got 1");
  const nowhere = createApp(new ScriptedEngine());
  const refused = await nowhere.request("/flush_cache?stored=true");
  expect(refused.status).toBe(400);
  expect(await errorMessage(refused)).toBe("Cannot use stored: this server keeps no prefixes");
});
