/**
 * Hostile clients of the interfaces beside OpenAI's chats, and of forms whose parts multiply.
 *
 * @module
 */
import type { Kind } from "./neighbours.ts";
import { get, many, post } from "./raw_requests.ts";

const listOf = (count: number) => `[${"0,".repeat(count)}0]`;
const numbers = listOf(400_000);
const constrained = (sampling: object) =>
  post("/generate", { text: "Answer: ", sampling_params: { max_new_tokens: 4, ...sampling } });
const distinct = (i: number) => String.fromCodePoint(0x4e00 + i);

/** A lookahead whose automaton is too large, with many ways out of it. */
const lookahead = (length: number) =>
  `(?=.*a.{${length}}b|${many(300, (i) => `.${distinct(i)}`).join("|")})`;

const tag = (format: object) => constrained({ structural_tag: JSON.stringify({ format }) });

export const INTERFACES: readonly Kind[] = [
  {
    name: "calls of messages and of Ollama whose arguments are megabytes of objects",
    connections: [
      post(
        "/v1/messages",
        `{"max_tokens":4,"messages":[{"role":"assistant","content":[${many(
          12,
          (i) => `{"type":"tool_use","id":"t${i}","name":"f","input":{"a":${numbers}}}`,
        ).join()}]}]}`,
      ),
      post(
        "/v1/messages",
        `{"max_tokens":4,"messages":[{"role":"assistant","content":[{"type":"tool_use","id":"t","name":"f","input":{"a":${listOf(260_000)}}}]}]}`,
      ),
      post(
        "/api/chat",
        `{"model":"m","messages":[{"role":"assistant","content":"","tool_calls":[${many(
          12,
          () => `{"function":{"name":"f","arguments":{"a":${numbers}}}}`,
        ).join()}]}]}`,
      ),
    ],
  },
  {
    name: "responses that say much of themselves, and ids that were never there",
    connections: [
      post("/v1/responses", {
        input: "hi",
        max_output_tokens: 4,
        reasoning: { summary: many(3, () => "x".repeat(5_000_000)) },
      }),
      post("/v1/responses", { input: "hi", text: { verbosity: "v".repeat(5_000_000) } }),
      post("/v1/responses", { input: "x", include: [{ toString: 1 }] }),
      post("/v1/responses", { input: "hi", previous_response_id: "r".repeat(100_000) }),
      ...many(30, (i) => get(`/v1/responses/resp_${i}`)),
      post("/v1/messages/count_tokens", { messages: many(20_000, () => ({ role: "user" })) }),
    ],
  },
  {
    name: "images that a model without eyes is sent",
    connections: [
      post("/generate", `{"text":"x","image_data":${numbers}}`),
      post("/v1/chat/completions", {
        messages: [
          {
            role: "user",
            content: many(5000, () => ({ type: "image_url", image_url: { url: "data:," } })),
          },
        ],
      }),
    ],
  },
  {
    name: "forms of a few kilobytes whose parts multiply",
    isLong: true,
    connections: [
      constrained({ regex: `${[15, 16, 17].map(lookahead).join("")}.*` }),
      constrained({
        ebnf: `root ::= ${"(".repeat(400)}root "x"${' | "a"'.repeat(3000)}${' "y")'.repeat(400)} | "b"`,
      }),
      tag({
        type: "tag",
        begin: "x",
        content: { type: "any_text" },
        end: many(2500, (i) => `${distinct(i)}abcdefgh`),
      }),
      tag({ type: "const_string", value: "<|eot_id|>".repeat(6000) }),
    ],
  },
];
