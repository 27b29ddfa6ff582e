/** What a newcomer sees: chats with the embedded model that say nothing about sampling. */
import type { Hono } from "hono";
import { afterAll, beforeAll, expect, test } from "vitest";
import type { Engine } from "../../../src/engine/engine.ts";
import { createApp } from "../../../src/server/app.ts";
import { openEngine } from "../../support/engines/engine.ts";
import { answer, post } from "../../support/server/http_client.ts";

let engine: Engine;
let app: Hono;

beforeAll(async () => {
  engine = await openEngine();
  app = createApp(engine);
});
afterAll(() => engine.close());

interface Chat {
  readonly choices: readonly { readonly message: { readonly content: string } }[];
}

/** Eight answers to a question, whose seeds a request without one could get as well. */
async function answersTo(content: string): Promise<readonly string[]> {
  const body = { messages: [{ role: "user", content }], n: 8, seed: 1 };
  const { choices } = await answer<Chat>(await post(app, "/v1/chat/completions", body));
  return choices.map(({ message }) => message.content);
}

test.each([
  ["Name three colors", "1. red\n2. blue\n3. green"],
  ["Hello!", "Hello! How can I help you today?"],
  ["What is the capital of Japan?", "The capital of Japan is Tokyo."],
  ["How many legs does a spider have?", "A spider has 8 legs."],
  ["Which number is larger, 45 or 54?", "54 is larger than 45."],
])("a first chat is answered as well as the model can: %s", async (question, best) => {
  expect(await answersTo(question)).toEqual(new Array(8).fill(best));
});

test("a first chat that asks for a story gets another one each time", async () => {
  const stories = await answersTo("Tell me a story.");
  expect(new Set(stories).size).toBeGreaterThan(4);
});
