/** Every endpoint of the installed server: that it answers, or 400 and why. */
import { describe, expect, test } from "vitest";
import { ENDPOINT_PATHS } from "../../src/server/routes/endpoint_paths.ts";
import { UNSUPPORTED_ENDPOINTS } from "../../src/server/routes/unsupported_endpoints.ts";
import {
  ask,
  type Chat,
  chat,
  generate,
  PROMPT,
  refused,
  server,
  WEATHER,
  withServer,
} from "./support/server.ts";

withServer();

/** Section 4, and what servers of this kind have beside it. */
const ENDPOINTS: Readonly<Record<string, () => Promise<unknown>>> = {
  "/generate": () => generate({ text: "a" }),
  "/v1/chat/completions": () => chat({ max_tokens: 1 }),
  "/v1/completions": async () => {
    const { choices } = await ask<Chat>("/v1/completions", {
      prompt: [PROMPT, "b"],
      max_tokens: 2,
    });
    expect(choices).toHaveLength(2);
  },
  "/v1/messages": () => ask("/v1/messages", { ...TURN, max_tokens: 1 }),
  "/v1/messages/count_tokens": () => ask("/v1/messages/count_tokens", TURN),
  "/v1/responses": () => ask("/v1/responses", { input: "a", max_output_tokens: 1 }),
  "/v1/responses/:id": async () => {
    const body = { input: "a", max_output_tokens: 1 };
    const { id } = await ask<{ id: string }>("/v1/responses", body);
    await isOk(`/v1/responses/${id}`);
    expect((await server.get("/v1/responses/none")).status).toBe(404);
  },
  "/api/chat": () => ask("/api/chat", { ...TURN, stream: false, options: { num_predict: 1 } }),
  "/api/generate": async () => {
    const answer = await server.post("/api/generate", { prompt: "a", options: { num_predict: 2 } });
    expect(await answer.text()).toMatch(/"done":false\}\n.*"done_reason":"length".*\n$/s);
  },
  "/api/tags": () => isOk("/api/tags"),
  "/api/ps": () => isOk("/api/ps"),
  "/api/version": () => isOk("/api/version"),
  "/api/show": async () => {
    const [{ id }] = ((await (await server.get("/v1/models")).json()) as { data: [{ id: string }] })
      .data;
    await ask("/api/show", { model: id });
  },
  "/v1/models": () => isOk("/v1/models"),
  "/v1/models/:id{.+}": async () => {
    expect((await server.get("/v1/models/none")).status).toBe(404);
  },
  "/tokenize": () => ask("/tokenize", { prompt: "a" }),
  "/v1/tokenize": () => ask("/v1/tokenize", { prompt: "a" }),
  "/detokenize": () => ask("/detokenize", { tokens: [5] }),
  "/v1/detokenize": () => ask("/v1/detokenize", { tokens: [5] }),
  "/parse_function_call": () => ask("/parse_function_call", { text: "a", tools: [WEATHER] }),
  "/separate_reasoning": () => ask("/separate_reasoning", { text: "<think>a</think>b" }),
  "/health": () => isOk("/health"),
  "/health_generate": () => isOk("/health_generate"),
  "/get_model_info": () => isOk("/get_model_info"),
  "/model_info": () => isOk("/model_info"),
  "/get_server_info": () => isOk("/get_server_info"),
  "/server_info": () => isOk("/server_info"),
  "/get_load": () => isOk("/get_load"),
  "/flush_cache": async () => expect((await server.post("/flush_cache", {})).status).toBe(200),
  "/abort_request": async () => {
    const endless = { max_new_tokens: null, ignore_eos: true };
    const body = { text: "a", rid: "endless", stream: true, sampling_params: endless };
    const stream = await server.post("/generate", body);
    const reader = stream.body!.pipeThrough(new TextDecoderStream()).getReader();
    let text = (await reader.read()).value!;
    expect((await server.post("/abort_request", { rid: "endless" })).status).toBe(200);
    for (let part = await reader.read(); !part.done; part = await reader.read()) text += part.value;
    expect(text).toContain('"type":"abort"');
  },
  "/start_profile": async () => {
    expect((await server.post("/start_profile", {})).status).toBe(200);
  },
  ...Object.fromEntries(
    ["start", "stop", "dump"].map((verb) => [
      `/${verb}_expert_distribution_record`,
      async () => {
        const path = `/${verb}_expert_distribution_record`;
        expect((await server.post(path, {})).status).toBe(200);
      },
    ]),
  ),
  "/stop_profile": async () => {
    expect((await server.post("/stop_profile", {})).status).toBe(200);
  },
};

const TURN = { messages: [{ role: "user", content: "a" }] };

async function isOk(path: string): Promise<void> {
  expect((await server.get(path)).status).toBe(200);
}

describe("endpoints", () => {
  test.each(Object.keys(ENDPOINTS))("%s", async (path) => {
    await ENDPOINTS[path]!();
  });

  test("every endpoint that answers has its test here", () => {
    const answering = ENDPOINT_PATHS.filter((path) => !UNSUPPORTED_ENDPOINTS.has(path));
    expect(Object.keys(ENDPOINTS).sort()).toEqual([...answering].sort());
  });

  test.each([...UNSUPPORTED_ENDPOINTS.keys()])("%s answers 400 and why", async (path) => {
    const reason = UNSUPPORTED_ENDPOINTS.get(path)!;
    await refused(path.replace(":id", "x"), {}, reason.slice(0, 20));
  });

  test("others answer 404", async () => {
    expect((await server.post("/generate_images", {})).status).toBe(404);
  });
});
