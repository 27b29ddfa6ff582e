/** `cache_salt` and `extra_key` of both endpoints. */
import { expect, test } from "vitest";
import { createApp } from "../../../src/server/app.ts";
import { ScriptedEngine } from "../../support/engines/scripted_engine.ts";
import { errorMessage, post } from "../../support/server/http_client.ts";

const ENDPOINTS = [
  ["/generate", { text: "a" }],
  ["/v1/chat/completions", { messages: [{ role: "user", content: "a" }] }],
] as const;

async function salts(path: string, body: object): Promise<readonly (string | undefined)[]> {
  const engine = new ScriptedEngine();
  const response = await post(createApp(engine), path, body);
  expect(response.status).toBe(200);
  return engine.requests.map(({ cacheSalt }) => cacheSalt);
}

test.each(ENDPOINTS)("%s takes either name, or both", async (path, body) => {
  const salt = async (fields: object) => (await salts(path, { ...body, ...fields }))[0];
  expect(await salt({ cache_salt: "s" })).toBe("s");
  expect(await salt({ extra_key: "s" })).toBe("s");
  expect(await salt({ cache_salt: "s", extra_key: "s" })).toBe("s");
  expect(await salt({ cache_salt: null, extra_key: null })).toBeUndefined();
  const pairs = [
    ["a", "b"],
    ["b", "a"],
    ["a,", "b"],
    ["a", ",b"],
    ['a"', "b"],
    ["a", '"b'],
  ];
  const both = await Promise.all(
    pairs.map(([cache_salt, extra_key]) => salt({ cache_salt, extra_key })),
  );
  expect(new Set([...both, "a", "b"]).size).toBe(pairs.length + 2);
});

test.each(ENDPOINTS)("%s refuses what is not a name", async (path, body) => {
  const app = createApp(new ScriptedEngine());
  for (const [fields, message] of [
    [{ cache_salt: "" }, "cache_salt cannot be empty"],
    [{ extra_key: 1 }, "extra_key must be a string, got 1"],
    [{ cache_salt: ["a"] }, "cache_salt must be a string, got a list"],
  ] as const) {
    const response = await post(app, path, { ...body, ...fields });
    expect(response.status).toBe(400);
    expect(await errorMessage(response)).toBe(message);
  }
});

test("a batch shares one or has one for each prompt, samples have their prompt's", async () => {
  const text = ["a", "b"];
  expect(await salts("/generate", { text, cache_salt: "s" })).toEqual(["s", "s"]);
  const each = { text, extra_key: ["s", null], sampling_params: { n: 2 } };
  expect(await salts("/generate", each)).toEqual(["s", "s", undefined, undefined]);
  const app = createApp(new ScriptedEngine());
  const response = await post(app, "/generate", { text, cache_salt: ["s"] });
  expect(await errorMessage(response)).toBe(
    "cache_salt must have one item for each of the 2 prompts, got 1",
  );
});
