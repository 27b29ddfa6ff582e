/**
 * Hostile clients that ask for much: tokens, choices, answers of megabytes, requests without end.
 *
 * @module
 */
import type { Kind } from "./neighbours.ts";
import { get, many, post } from "./raw_requests.ts";

const LONG = { max_new_tokens: 400, ignore_eos: true };
const chat = (fields: object, content = "Tell me all you know.") => ({
  messages: [{ role: "user", content }],
  max_tokens: 400,
  ignore_eos: true,
  ...fields,
});

export const FLOODS: readonly Kind[] = [
  {
    name: "token floods",
    connections: many(16, () => post("/v1/chat/completions", chat({ stream: true }), "stay")),
  },
  {
    name: "slow readers",
    connections: many(16, () =>
      post("/generate", { text: "a", sampling_params: LONG, stream: true }, "never read"),
    ),
  },
  {
    name: "prompts times choices",
    connections: many(4, () =>
      post(
        "/generate",
        {
          text: many(1000, () => "a"),
          sampling_params: { n: 128, max_new_tokens: 8 },
        },
        "leave",
      ),
    ),
  },
  {
    name: "batches of 100,000 prompts",
    connections: [
      post("/v1/completions", { model: "m", prompt: many(100_000, () => "a"), max_tokens: 1 }),
      post("/generate", { text: many(100_000, () => "a"), sampling_params: { max_new_tokens: 1 } }),
    ],
  },
  {
    name: "128 choices of a long prompt",
    isLong: true,
    connections: many(2, () =>
      post(
        "/generate",
        {
          text: "word ".repeat(600),
          sampling_params: { n: 128, max_new_tokens: 2 },
        },
        "leave at the first bytes",
      ),
    ),
  },
  {
    name: "300,000 ids of token_ids_logprob",
    connections: many(2, () =>
      post("/generate", {
        text: "one two three four",
        sampling_params: { max_new_tokens: 2 },
        return_logprob: true,
        logprob_start_len: 0,
        token_ids_logprob: many(300_000, (i) => i % 500),
      }),
    ),
  },
  {
    name: "1,024 top log-probabilities of each position",
    isLong: true,
    connections: many(4, () =>
      post("/generate", {
        text: "word ".repeat(600),
        sampling_params: { max_new_tokens: 2 },
        return_logprob: true,
        return_text_in_logprobs: true,
        logprob_start_len: 0,
        top_logprobs_num: 1024,
      }),
    ),
    atOnce: 4,
  },
  {
    name: "input_embeds of megabytes",
    isLong: true,
    connections: many(2, () =>
      post("/generate", {
        input_embeds: many(600, () => many(256, () => 0.5)),
        sampling_params: { max_new_tokens: 1 },
      }),
    ),
  },
  {
    name: "priorities",
    connections: many(20, (i) =>
      post("/generate", {
        text: "me first",
        sampling_params: { max_new_tokens: 8, ignore_eos: true },
        priority: (i % 2 === 0 ? 1 : -1) * (Number.MAX_SAFE_INTEGER - i),
      }),
    ),
  },
  {
    name: "cache salts",
    isLong: true,
    connections: many(48, (i) =>
      post("/v1/chat/completions", { ...chat({ max_tokens: 1, cache_salt: `salt ${i}` }) }),
    ),
  },
  {
    name: "ids that are in use",
    connections: many(32, () =>
      post("/generate", { text: "a", rid: "same", sampling_params: { max_new_tokens: 4 } }),
    ),
  },
  {
    name: "floods of /abort_request",
    isLong: true,
    connections: many(200, (i) => post("/abort_request", { rid: `absent ${i}` })),
  },
  {
    name: "floods of /health_generate",
    connections: many(100, () => get("/health_generate")),
    atOnce: 32,
  },
  {
    name: "flushes and profiles",
    connections: many(30, (i) => {
      switch (i % 5) {
        case 0:
          return post("/start_profile", { num_steps: 2 });
        case 1:
          return post("/stop_profile", {});
        case 2:
          return get("/flush_cache");
        default:
          return post("/flush_cache?stored=true&timeout=0.01", {});
      }
    }),
  },
  {
    name: "floods of questions about the server",
    connections: many(100, (i) =>
      get(["/get_server_info", "/get_load", "/v1/models", "/get_model_info", "/nowhere"][i % 5]!),
    ),
  },
  {
    name: "clients that leave at every moment",
    connections: many(40, (i) =>
      post(
        "/v1/chat/completions",
        chat({ stream: i % 4 > 0, n: 1 + (i % 3), max_tokens: 64 }),
        i % 2 === 0 ? "leave" : "leave at the first bytes",
      ),
    ),
  },
];
