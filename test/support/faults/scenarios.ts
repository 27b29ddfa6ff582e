/**
 * Requests that together pass every `await` of the engine and the server.
 *
 * @module
 */
import { EMBEDDED_MODEL } from "../checkpoints/embedded_model.ts";
import { folderSource } from "../checkpoints/folder_source.ts";
import { MemoryBlobs } from "../engines/memory_blobs.ts";
import { VISION_MODEL } from "../engines/vision_engine.ts";
import { OF_FEW_SITES } from "./few_sites.ts";
import {
  base64,
  chat,
  GENERATING,
  GROWING,
  generate,
  imagePart,
  LONG,
  OTHERS,
  PROFILE,
  prompt,
  STORED,
} from "./sent_requests.ts";
import type { Scenario, Sent } from "./served_engine.ts";

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
      { profile: PROFILE },
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
