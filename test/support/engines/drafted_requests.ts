/**
 * Requests whose answers drafts must not change, and engines with and without drafts beside each
 * other.
 *
 * @module
 */
import type { LocalRequest } from "../../../src/engine/create_sequence.ts";
import type { Engine } from "../../../src/engine/engine.ts";
import type { LoadOptions } from "../../../src/engine/load/load_options.ts";
import type { SpeculationOptions } from "../../../src/speculation/speculation_options.ts";
import type { SpeculationFigures } from "../../../src/speculation_figures.ts";
import { chat, openEngine } from "./engine.ts";

export const GREEDY = { temperature: 0, maxNewTokens: 60 };
/** Of what the model and its module were trained on. */
export const CHATS = [
  "What is 12 + 7?",
  "What is the capital of Japan?",
  "How are you?",
  "What can you do?",
  "What is 34 + 5?",
  "Tell me a story.",
];
export const STORY = chat("Tell me a story.");

export async function answer(engine: Pick<Engine, "generate">, request: LocalRequest) {
  const tokens: number[] = [];
  const logprobs: unknown[] = [];
  let text = "";
  let speculation: SpeculationFigures | undefined;
  let finish: unknown;
  let cachedTokens = 0;
  for await (const chunk of engine.generate(request)) {
    for (const token of chunk.tokens) tokens.push(token);
    for (const one of chunk.logprobs ?? []) logprobs.push(one);
    text += chunk.text;
    ({ speculation, finish, cachedTokens } = chunk);
  }
  return { answer: { tokens, logprobs, text, finish }, speculation, cachedTokens };
}

export const answers = (engine: Engine, requests: readonly LocalRequest[]) =>
  Promise.all(requests.map((request) => answer(engine, request)));

/** Eight requests at once that an answer's bits can depend on in eight ways. */
export const REQUESTS: readonly LocalRequest[] = [
  { messages: STORY, sampling: { ...GREEDY, maxNewTokens: 30 }, logprobs: { topCount: 2 } },
  { messages: chat(CHATS[0]!), sampling: GREEDY, logprobs: { topCount: 1 } },
  {
    messages: STORY,
    sampling: { temperature: 0.6, topP: 0.95, topK: 40, minP: 0.01, seed: 3, maxNewTokens: 30 },
    logprobs: { topCount: 1 },
  },
  {
    messages: STORY,
    sampling: {
      ...{ ...GREEDY, maxNewTokens: 30, ignoreEos: true, minNewTokens: 20 },
      ...{ frequencyPenalty: 0.2, presencePenalty: 0.1, repetitionPenalty: 1.05 },
    },
  },
  {
    messages: chat("Write a person as JSON."),
    sampling: {
      ...{ temperature: 0.7, seed: 7, maxNewTokens: 30 },
      jsonSchema: {
        type: "object",
        properties: { name: { type: "string", maxLength: 12 }, age: { type: "integer" } },
        required: ["name", "age"],
      },
    },
    logprobs: { topCount: 1 },
  },
  {
    messages: chat(CHATS[1]!),
    sampling: { ...GREEDY, maxNewTokens: 20, ignoreEos: true },
    logitProcessors: [({ tokens, logits }) => (logits[tokens.at(-1)!]! -= 0.5)],
  },
  { messages: chat("Hello!"), sampling: { temperature: 1, seed: 11, maxNewTokens: 20 } },
  {
    messages: chat(CHATS[3]!),
    sampling: { ...GREEDY, maxNewTokens: 30, logitBias: { 900: 1 } },
    logprobs: { topCount: 3, text: true },
  },
];

export const onlyAnswers = (all: Awaited<ReturnType<typeof answers>>) =>
  all.map((one) => one.answer);

/** Runs a plain and a drafted engine of the same options. */
export async function withDrafts(
  speculation: SpeculationOptions,
  options: Partial<LoadOptions>,
  work: (plain: Engine, drafted: Engine) => Promise<void>,
): Promise<void> {
  const plain = await openEngine(options);
  const drafted = await openEngine({ ...options, speculation });
  try {
    await work(plain, drafted);
  } finally {
    await plain.close();
    await drafted.close();
  }
}
