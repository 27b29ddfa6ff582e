/**
 * What tests of the installed server's fields and endpoints share: the server, requests, answers.
 *
 * @module
 */
import { afterAll, beforeAll, expect } from "vitest";
import type { GenerateAnswer } from "../../support/server/http_client.ts";
import { type ServingWisp, scratch, serveWisp, stopAll } from "./wisp.ts";

/** With what a request for log-probabilities adds. */
export interface Answer extends GenerateAnswer {
  readonly meta_info: GenerateAnswer["meta_info"] & {
    readonly input_token_logprobs?: readonly (readonly [number | null, number, string | null])[];
    readonly output_token_logprobs?: readonly (readonly [number, number, string | null])[];
    readonly output_top_logprobs?: readonly (readonly unknown[])[];
  };
}

export interface Chat {
  readonly id: string;
  readonly object: string;
  readonly created: number;
  readonly model: string;
  readonly choices: readonly {
    readonly index: number;
    readonly message: {
      readonly role: string;
      readonly content: string | null;
      readonly reasoning_content: string | null;
      readonly tool_calls:
        | readonly {
            readonly id: string;
            readonly index: number | null;
            readonly type: string;
            readonly function: { readonly name: string; readonly arguments: string };
          }[]
        | null;
    };
    readonly logprobs: object | null;
    readonly finish_reason: string;
    readonly matched_stop: unknown;
  }[];
  readonly usage: Readonly<Record<string, number | null>>;
}

export let server: ServingWisp;

/** Starts the server before the tests of a file, and ends it behind them. */
export function withServer(): void {
  beforeAll(async () => {
    server = await serveWisp([
      ...["--grammar-backend", "auto", "--tool-call-parser", "deepseekv3", "--enable-metrics"],
      ...["--reasoning-parser", "deepseek-v3", "--profile-dir", scratch("profiles")],
      ...["--expert-distribution-recorder-mode", "stat"],
      ...["--expert-distribution-recorder-dir", scratch("experts")],
    ]);
  });
  afterAll(stopAll);
}

export const GREEDY = { temperature: 0, max_new_tokens: 6 } as const;
export const PROMPT = "The capital of Japan is";

export async function ask<T>(path: string, body: object): Promise<T> {
  const response = await server.post(path, body);
  expect(response.status, await response.clone().text()).toBe(200);
  return (await response.json()) as T;
}

export const generate = (body: object) =>
  ask<Answer>("/generate", { sampling_params: GREEDY, ...body });
export const batch = (body: object) =>
  ask<Answer[]>("/generate", { sampling_params: GREEDY, ...body });
export const sample = (params: object, text = PROMPT) =>
  generate({ text, sampling_params: { ...GREEDY, ...params } });

/** The refusal of a body, which names what it refuses. */
export async function refused(path: string, body: object, name: string): Promise<void> {
  const response = await server.post(path, body);
  expect([response.status, await response.text()]).toEqual([400, expect.stringContaining(name)]);
}

export async function events(
  path: string,
  body: object,
): Promise<readonly Record<string, unknown>[]> {
  const response = await server.post(path, { ...body, stream: true });
  const lines = (await response.text()).split("\n\n").filter((line) => line !== "");
  expect(lines.pop()).toBe("data: [DONE]");
  return lines.map((line) => JSON.parse(line.replace(/^data: /, "")));
}

export const WEATHER = {
  type: "function",
  function: {
    name: "get_weather",
    description: "Get the current weather in a city.",
    parameters: { type: "object", properties: { city: { type: "string" } }, required: ["city"] },
  },
};

export const chat = (body: object, content = "What is the capital of Japan?") =>
  ask<Chat>("/v1/chat/completions", {
    messages: [{ role: "user", content }],
    temperature: 0,
    ...body,
  });
