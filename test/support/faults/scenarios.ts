/**
 * Requests that together pass every `await` of the engine and the server.
 *
 * @module
 */
import { gzipSync } from "node:zlib";
import type { LocalRequest } from "../../../src/engine/engine.ts";
import { EMBEDDED_MODEL } from "../checkpoints/embedded_model.ts";
import { folderSource } from "../checkpoints/folder_source.ts";
import { MemoryBlobs } from "../engines/memory_blobs.ts";
import { picture, VISION_MODEL } from "../engines/vision_engine.ts";
import type { Scenario, Sent } from "./served_engine.ts";

const prompt = (first: number, length = 9) =>
  Array.from({ length }, (_, i) => 3 + ((first + 31 * i) % 500));
const SAMPLED = { temperature: 0.9, sampling_seed: 5, max_new_tokens: 8, ignore_eos: true };
const MESSAGES = [{ role: "user", content: "Count to ten." }];
const TOOLS = [{ type: "function", function: { name: "f", parameters: { type: "object" } } }];

/** A request to which a manner can be added. */
type Plain = readonly [method: string, path: string, body: object];

const chat = (fields: object): Plain => [
  "POST",
  "/v1/chat/completions",
  { messages: MESSAGES, max_tokens: 5, seed: 4, ignore_eos: true, ...fields },
];
const generate = (fields: object, sampling: object = {}): Plain => [
  "POST",
  "/generate",
  { sampling_params: { ...SAMPLED, ...sampling }, ...fields },
];

const base64 = (name: string) => Buffer.from(picture(name)).toString("base64");
const imagePart = (name: string) => ({
  type: "image_url",
  image_url: { url: `data:image/png;base64,${base64(name)}` },
});

/** Requests that the model answers. */
export const GENERATING = {
  chat: chat({ n: 2, stream: true, logprobs: true, top_logprobs: 2 }),
  "whole chat": chat({ tools: TOOLS }),
  scored: generate({
    input_ids: prompt(8, 20),
    ...{ return_logprob: true, logprob_start_len: 0, top_logprobs_num: 3 },
    token_ids_logprob: [5, 6],
  }),
  stream: generate(
    { input_ids: prompt(5), stream: true },
    { frequency_penalty: 0.5, logit_bias: { 40: 1 } },
  ),
  completions: [
    "POST",
    "/v1/completions",
    {
      model: "m",
      prompt: ["one two", "three"],
      max_tokens: 4,
      ...{ echo: true, logprobs: 1, seed: 3, ignore_eos: true },
    },
  ],
  regex: generate({ text: "a" }, { regex: "[a-z ]{90}" }),
} as const satisfies Record<string, Sent>;

const rows = (seed: number) =>
  Array.from({ length: 7 }, (_, row) =>
    Array.from({ length: 256 }, (_, i) => Math.sin(row * seed + i) / 9),
  );
/** What memory has to grow for, the first time: each alone, as growth ends the request that asks for it. */
const GROWING: readonly Readonly<Record<string, Sent>>[] = [
  { penalties: generate({ input_ids: prompt(21) }, { repetition_penalty: 1.2 }) },
  {
    biases: generate(
      { input_ids: prompt(22) },
      { logit_bias: Object.fromEntries(Array.from({ length: 600 }, (_, i) => [i + 3, -1])) },
    ),
  },
  {
    "many log-probabilities": generate({
      input_ids: prompt(23),
      ...{ return_logprob: true, token_ids_logprob: prompt(24, 99) },
    }),
  },
];

const STORED = generate({ input_ids: prompt(9, 70), store_prefix: true }, { max_new_tokens: 2 });

const OTHERS = {
  embeddings: generate({ input_embeds: rows(7) }),
  "embeddings of two": generate({ input_embeds: [rows(7), rows(8)] }),
  zipped: [
    "POST",
    "/tokenize",
    new Uint8Array(gzipSync(JSON.stringify({ prompt: "hello there" }))),
  ],
  tokenize: ["POST", "/tokenize", { prompt: ["hello there", "you"] }],
  detokenize: ["POST", "/detokenize", { tokens: [[5, 6, 7], [8]] }],
  calls: [
    "POST",
    "/parse_function_call",
    {
      text: '<tool_call>\n{"name": "f", "arguments": {}}\n</tool_call>',
      tools: TOOLS,
      tool_call_parser: "qwen25",
    },
  ],
  reasoning: [
    "POST",
    "/separate_reasoning",
    { text: "<think>a</think>b", reasoning_parser: "qwen3" },
  ],
  message: [
    "POST",
    "/v1/messages",
    { model: "m", messages: MESSAGES, max_tokens: 4, stream: true, temperature: 0 },
  ],
  "whole message": ["POST", "/v1/messages", { messages: MESSAGES, max_tokens: 3, temperature: 0 }],
  counted: ["POST", "/v1/messages/count_tokens", { messages: MESSAGES }],
  response: [
    "POST",
    "/v1/responses",
    { input: "Count to ten.", max_output_tokens: 4, stream: true, temperature: 0 },
  ],
  "whole response": [
    "POST",
    "/v1/responses",
    { input: "Count", max_output_tokens: 3, temperature: 0 },
  ],
  ollama: [
    "POST",
    "/api/chat",
    { messages: MESSAGES, options: { num_predict: 3, temperature: 0 } },
  ],
  "whole ollama": [
    "POST",
    "/api/generate",
    { prompt: "Count", stream: false, options: { num_predict: 3, temperature: 0 } },
  ],
  health: ["GET", "/health_generate"],
  flush: ["POST", "/flush_cache?timeout=3000"],
  abort: ["POST", "/abort_request", { rid: "absent" }],
  metrics: ["GET", "/metrics"],
  processed: [
    "LIBRARY",
    "",
    {
      tokens: prompt(6),
      sampling: { maxNewTokens: 4, ignoreEos: true, temperature: 0 },
      logitProcessors: [({ tokens, logits }) => logits.fill(1e6, 40 + tokens.length, 42)],
    } satisfies LocalRequest,
  ],
} as const satisfies Record<string, Sent>;

/** So much that it is read, written or packed in pieces. */
const LONG = {
  "long body": [
    "POST",
    "/generate",
    JSON.stringify({ text: "a", sampling_params: SAMPLED }) + " ".repeat(2 ** 21),
  ],
  "long event": generate({
    ...{ input_ids: prompt(8, 20), stream: true },
    ...{ return_logprob: true, logprob_start_len: 0, top_logprobs_num: 60 },
  }),
  "long answer": ["POST", "/tokenize", { prompt: "a b c d e f g ".repeat(6000) }],
  "long list": [
    "POST",
    "/detokenize",
    { tokens: Array.from({ length: 40_000 }, (_, i) => 3 + (i % 500)) },
  ],
} as const satisfies Record<string, Sent>;

/** Each depends on the one before: together they are one client's doing. */
const PROFILE: Sent = [
  ...(["POST", "/start_profile", {}] as const),
  { behind: [GENERATING.stream, ["POST", "/stop_profile", {}]] },
];

/** Of a model that reads images, where there is one: in a text, in chats, and for several answers. */
const IMAGES: readonly Scenario[] =
  VISION_MODEL === undefined
    ? []
    : [{}, { isRemote: true }, { isSlow: true }].map((kind) => ({
        name: ["images", ...Object.keys(kind)].join(", "),
        ...kind,
        folder: VISION_MODEL!,
        options: { maxTotalTokens: 2048, pageSize: 4 },
        isLong: true,
        waves: [
          {
            text: generate({ text: "<image>a", image_data: base64("tall.png") }),
            chat: chat({
              n: 2,
              messages: [
                { role: "user", content: [imagePart("photo.png"), imagePart("tiny.png")] },
              ],
            }),
            plain: chat({}),
          },
        ],
      }));

/** Together they want more pages than 44 tokens have. */
const RETRACTED: Readonly<Record<string, Sent>> = Object.fromEntries(
  [5, 5, 300].map((first, seed) => [
    `sequence ${seed}`,
    generate({ input_ids: prompt(first) }, { sampling_seed: seed, max_new_tokens: 12 }),
  ]),
);

const drafting = (algorithm: "EAGLE" | "NGRAM"): Scenario => ({
  name: `drafts of ${algorithm}`,
  isLong: algorithm === "NGRAM",
  options: { maxTotalTokens: 1024, contextLength: 128, speculation: { algorithm } },
  waves: [
    {
      chat: GENERATING.chat,
      scored: GENERATING.scored,
      stream: GENERATING.stream,
      regex: GENERATING.regex,
      repeating: generate(
        { input_ids: Array.from({ length: 24 }, (_, i) => 5 + (i % 4)) },
        { temperature: 0, max_new_tokens: 24 },
      ),
    },
  ],
});

/** Prefixes of two blocks each. */
const storedLong = (first: number) =>
  generate({ input_ids: prompt(first, 150), store_prefix: true }, { max_new_tokens: 2 });

/** Has room for one of them, whatever it says. */
function smallBlobs(): MemoryBlobs {
  const blobs = new MemoryBlobs();
  blobs.room = 200_000;
  blobs.isFull = (error) => String(error).includes("no room");
  return blobs;
}

/** Whatever is read of it is damaged. */
class DamagedBlobs extends MemoryBlobs {
  override async read(name: string): Promise<Uint8Array<ArrayBuffer> | undefined> {
    const bytes = await super.read(name);
    if (bytes !== undefined) bytes[0]! ^= 1;
    return bytes;
  }
}

const withStorage = (storage: MemoryBlobs): Scenario["options"] => ({
  ...{ pageSize: 4, contextLength: 256, maxTotalTokens: 1024 },
  prefixStore: { storage, maxWait: 60 },
});

/** Scenarios that are about a few sites each, which no other one passes. */
const OF_FEW_SITES: readonly Scenario[] = [
  {
    name: "a storage without room, whose prefixes are used again",
    options: withStorage(smallBlobs()),
    waves: [
      { stored: storedLong(9) },
      { "stored before": storedLong(9) },
      { "stored too": storedLong(10) },
    ],
    only: [
      "cache/prefix_store.ts: if (!isFull || !(await this.#makeRoom(byteLength, kept, this.#bytes))) throw error;",
      "cache/prefix_store.ts: await put(); (2)",
      'cache/prefix_store.ts: await this.#try("mark", () => this.#options.storage.markUsed(names));',
      "cache/prefix_store.ts: await this.#delete(names);",
    ],
  },
  {
    name: "a storage that damages what it holds",
    options: withStorage(new DamagedBlobs()),
    waves: [{ stored: STORED }, { "stored before": STORED }],
    only: [
      "cache/prefix_store.ts: await this.discard(block, error);",
      "cache/prefix_store.ts: await this.#delete([name]);",
    ],
  },
  {
    name: "pages that cannot be what they were stored as",
    options: withStorage(new MemoryBlobs()),
    waves: [{ stored: STORED }, { "stored before": STORED }],
    faults: [
      {
        site: "engine/prefix/prefix_transfers.ts: await write();",
        error: ({ errors }) => new errors.TransferError("cache pages", "length", "it is odd"),
      },
    ],
    only: ["engine/prefix/prefix_transfers.ts: await this.#options.store.discard(block, error);"],
  },
  {
    name: "a stream that fails, and clients that leave one",
    options: { maxTotalTokens: 1024, contextLength: 128 },
    waves: [
      { stream: GENERATING.stream },
      {
        left: [...chat({ stream: true, max_tokens: 60 }), { reads: "one piece" }],
      },
    ],
    faults: [
      {
        site: "http/event_stream.ts: const { done, value } = await iterator.next();",
        error: () => new RangeError("the stream fails"),
      },
    ],
    refused: ["stream"],
    only: [
      "http/event_stream.ts: await iterator.return?.();",
      "http/event_stream.ts: await iterator.return?.(); (2)",
      "server/generation_group.ts: await this.#stop(); (2)",
    ],
  },
  {
    name: "more log-probabilities than there is memory for",
    options: { maxTotalTokens: 16384, contextLength: 2048 },
    waves: [
      {
        many: generate(
          {
            input_ids: Array.from({ length: 7 }, (_, i) => prompt(i)),
            ...{ return_logprob: true, token_ids_logprob: Array(4096).fill(5) },
          },
          { max_new_tokens: 1500 },
        ),
      },
    ],
    refused: ["many"],
    only: ["server/generation_group.ts: await this.#stop();"],
  },
  {
    name: "behind a port, a client that reads slowly",
    options: { maxTotalTokens: 1024, contextLength: 512 },
    isRemote: true,
    waves: [
      {
        slow: [
          ...generate({ input_ids: prompt(5), stream: true }, { max_new_tokens: 400 }),
          { reads: "slowly" },
        ],
      },
    ],
    only: [
      "engine/remote/serve_engine.ts: while (!isOver && this.#mustWait(running)) await running.taken.wait();",
    ],
  },
];

export const SCENARIOS: readonly Scenario[] = [
  ...IMAGES,
  {
    name: "every endpoint, with stored prefixes",
    options: {
      ...{ pageSize: 4, contextLength: 128, maxTotalTokens: 1024, maxRunningRequests: 8 },
      prefixStore: { storage: new MemoryBlobs(), maxWait: 60 },
    },
    waves: [
      { ...GENERATING, stored: STORED, ...OTHERS },
      ...GROWING,
      { "stored before": STORED },
      LONG,
      { "flush of all": ["POST", "/flush_cache?stored=true"] },
    ],
  },
  {
    name: "a profile",
    isLong: true,
    options: { contextLength: 128, maxTotalTokens: 1024 },
    waves: [{ profile: PROFILE }],
  },
  {
    name: "a machine so slow that each slice is over at once",
    options: { contextLength: 128, maxTotalTokens: 1024 },
    isSlow: true,
    waves: [{ ...GENERATING, ...OTHERS }, LONG, { health: ["GET", "/health_generate"] }],
  },
  {
    name: "too few pages",
    isLong: true,
    options: {
      ...{ pageSize: 4, maxRunningRequests: 3, maxTotalTokens: 44, contextLength: 36 },
      ...{ scheduleConservativeness: 0, retractionMemory: 2 ** 26 },
    },
    waves: [RETRACTED],
  },
  drafting("EAGLE"),
  drafting("NGRAM"),
  {
    name: "a model that drafts, with stored prefixes and too few pages",
    isLong: true,
    options: {
      ...{ draftModel: folderSource(EMBEDDED_MODEL), speculation: { algorithm: "STANDALONE" } },
      ...{ pageSize: 4, maxRunningRequests: 3, maxTotalTokens: 44, contextLength: 36 },
      ...{ scheduleConservativeness: 0, retractionMemory: 2 ** 26 },
      prefixStore: { storage: new MemoryBlobs(), maxWait: 60 },
    },
    waves: [
      RETRACTED,
      { stored: generate({ input_ids: prompt(9, 20), store_prefix: true }, { max_new_tokens: 2 }) },
      { "stored before": generate({ input_ids: prompt(9, 20) }, { max_new_tokens: 4 }) },
    ],
  },
  {
    name: "two ranks, with stored prefixes",
    isLong: true,
    options: {
      ...{ tensorParallelSize: 2, pageSize: 4, maxTotalTokens: 512, contextLength: 128 },
      prefixStore: { storage: new MemoryBlobs(), maxWait: 60 },
    },
    waves: [
      { scored: GENERATING.scored, regex: GENERATING.regex, stored: STORED },
      { "stored before": STORED },
    ],
  },
  {
    name: "behind ports: engine, texts, grammars",
    options: { maxTotalTokens: 2048, contextLength: 256 },
    isRemote: true,
    isLong: true,
    waves: [{ ...GENERATING, ...OTHERS }, ...GROWING, LONG, { profile: PROFILE }],
  },
  ...OF_FEW_SITES.map((scenario) => ({ isLong: true, ...scenario })),
];
