/** Specification 8: the limits, each just kept and just crossed. */
import { describe, expect, test } from "vitest";
import { parseOptions } from "../../../src/node/options/option_parser.ts";
import { LAUNCH_OPTIONS } from "../../../src/node/options/options.ts";
import { createApp } from "../../../src/server/app.ts";
import { ScriptedEngine } from "../../support/engines/scripted_engine.ts";
import {
  answer,
  errorMessage,
  type GenerateAnswer,
  post,
} from "../../support/server/http_client.ts";

async function sampled(sampling_params: object): Promise<Response> {
  return post(createApp(new ScriptedEngine()), "/generate", { text: "a", sampling_params });
}

async function chatted(fields: object): Promise<Response> {
  const messages = [{ role: "user", content: "a" }];
  return post(createApp(new ScriptedEngine()), "/v1/chat/completions", { messages, ...fields });
}

test("128 new tokens unless a request says otherwise", async () => {
  const { meta_info } = await answer<GenerateAnswer>(await sampled({ ignore_eos: true }));
  expect(meta_info.completion_tokens).toBe(128);
  expect(meta_info.finish_reason).toEqual({ type: "length", length: 128 });
});

describe.each([
  ["frequency_penalty", [-2, 0, 2], [-2.001, 2.001]],
  ["presence_penalty", [-2, 0, 2], [-2.001, 2.001]],
  ["repetition_penalty", [0, 1, 2], [-0.001, 2.001]],
])("%s", (name, inside, outside) => {
  test.each(inside)("%f is taken", async (value) => {
    expect((await sampled({ [name]: value })).status).toBe(200);
    expect((await chatted({ [name]: value })).status).toBe(200);
  });

  test.each(outside)("%f is refused", async (value) => {
    const response = await sampled({ [name]: value });
    expect(response.status).toBe(400);
    expect(await errorMessage(response)).toContain(`sampling_params.${name} must be`);
    expect((await chatted({ [name]: value })).status).toBe(400);
  });
});

test.each([
  [{ min_new_tokens: 0 }, 200],
  [{ min_new_tokens: 127 }, 200],
  [{ min_new_tokens: 128 }, 400],
  [{ min_new_tokens: -1 }, 400],
  [{ min_new_tokens: 3, max_new_tokens: 4 }, 200],
  [{ min_new_tokens: 4, max_new_tokens: 4 }, 400],
  [{ min_new_tokens: 5, max_new_tokens: 4 }, 400],
  [{ min_new_tokens: 0, max_new_tokens: 0 }, 200],
])("of %j the status is %i", async (params, status) => {
  expect((await sampled(params)).status).toBe(status);
});

test("a body may have --max-request-size bytes, 64 MiB unless that says otherwise", async () => {
  const app = createApp(new ScriptedEngine(), { maxBodyBytes: 100 });
  const body = (length: number) => `{}${" ".repeat(length - 2)}`;
  expect((await post(app, "/generate", body(100))).status).toBe(400);
  expect((await post(app, "/generate", body(101))).status).toBe(413);
  const declared = { "content-length": String(64 * 2 ** 20 + 1) };
  const unlimited = createApp(new ScriptedEngine());
  expect((await post(unlimited, "/generate", "{}", { headers: declared })).status).toBe(413);
});

test("concurrency and timeouts of the reference deployment are options", () => {
  const args = ["--max-running-requests", "2048", "--dist-timeout", "3600"];
  const { maxRunningRequests, distTimeout } = parseOptions(LAUNCH_OPTIONS, args).values;
  expect([maxRunningRequests, distTimeout]).toEqual([2048, 3600]);
});
