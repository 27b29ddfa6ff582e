/**
 * What options of JSON schemas do, between a server that leaves them as they are and one that sets
 * them.
 *
 * @module
 */
import { expect } from "vitest";
import { AS_THE_SCHEMAS, keyOrders } from "./key_order.ts";
import type { Answer } from "./server.ts";
import type { ServingWisp } from "./wisp.ts";

const KEY = { authorization: "Bearer KEY" };

async function textOf(server: ServingWisp, sampling: object): Promise<string> {
  const sampling_params = { temperature: 0, max_new_tokens: 60, ...sampling };
  const response = await server.post("/generate", { text: "JSON:", sampling_params }, KEY);
  expect(response.status).toBe(200);
  return ((await response.json()) as Answer).text;
}

async function refuses(server: ServingWisp, sampling_params: object): Promise<void> {
  const { status } = await server.post("/generate", { text: "a", sampling_params }, KEY);
  expect(status).toBe(400);
}

async function dialect(first: ServingWisp, second: ServingWisp): Promise<void> {
  // A list of items is a tuple only in the older drafts.
  const json_schema = '{"type":"array","items":[{"enum":["b"]}],"minItems":1,"maxItems":1}';
  expect(await textOf(first, { json_schema })).toBe('["b"]');
  await refuses(second, { json_schema });
}

async function unknown(first: ServingWisp, second: ServingWisp): Promise<void> {
  const json_schema = '{"enum":["b"],"enumNames":["B"]}';
  expect(await textOf(first, { json_schema })).toBe('"b"');
  await refuses(second, { json_schema });
}

async function order(first: ServingWisp, second: ServingWisp): Promise<void> {
  expect(await keyOrders((more) => textOf(second, more))).toEqual(AS_THE_SCHEMAS);
  const free = await keyOrders((more) => textOf(first, more));
  expect(free[0]).toEqual(free[1]);
}

/** Text that a pattern leaves no choice about takes a step where there are several spellings, or none. */
async function jump(first: ServingWisp, second: ServingWisp): Promise<void> {
  const regex = "The quick brown fox jumps over the lazy dog, or so they say[.!]";
  const forced = async (server: ServingWisp) => {
    const sampling_params = { regex, max_new_tokens: 60 };
    const response = await server.post("/generate", { text: "a", sampling_params }, KEY);
    const { text, meta_info } = (await response.json()) as {
      readonly text: string;
      readonly meta_info: { readonly forced_tokens: number; readonly completion_tokens: number };
    };
    expect(text).toMatch(new RegExp(`^${regex}$`));
    expect(meta_info.forced_tokens).toBeLessThanOrEqual(meta_info.completion_tokens);
    return meta_info.forced_tokens;
  };
  expect(await forced(second)).toBeGreaterThan(await forced(first));
}

/** @param servers One that leaves the options as they are, and one that sets them. */
export function jsonTests(servers: () => readonly [ServingWisp, ServingWisp]) {
  return {
    jsonDialect: () => dialect(...servers()),
    jsonUnknown: () => unknown(...servers()),
    jsonOrder: () => order(...servers()),
    jsonJump: () => jump(...servers()),
  };
}
