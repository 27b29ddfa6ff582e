/**
 * Prompts of random contents, the same for the same seed.
 *
 * @module
 */
import type { TrafficPrompt } from "./backends.ts";

/**
 * Ids that stand for ordinary text in every vocabulary in use: above the special tokens and bytes
 * that come first, below the size of the smallest.
 */
const FIRST_TOKEN = 300;
const TOKENS = 700;

const WORDS = [
  ..."time people way water word day part number sound work place year live name house".split(" "),
  ..."world page land point school line story tree city night light hand river music".split(" "),
];

/** Numbers in [0, 1). (Generator: Mulberry32, T. Ettinger.) */
export function randomNumbers(seed: number): () => number {
  let state = seed >>> 0;
  return () => {
    state = (state + 0x6d2b79f5) >>> 0;
    let mixed = Math.imul(state ^ (state >>> 15), state | 1);
    mixed ^= mixed + Math.imul(mixed ^ (mixed >>> 7), mixed | 61);
    return ((mixed ^ (mixed >>> 14)) >>> 0) / 2 ** 32;
  };
}

export interface RandomPromptOptions {
  readonly count: number;
  /** Tokens of a prompt, and of its answer, at most. */
  readonly inputLength: number;
  readonly outputLength: number;
  /** The shortest length as a share of the longest; those between them are equally likely. */
  readonly rangeRatio: number;
  readonly random: () => number;
  /** Makes a prompt of so many tokens. */
  readonly content: (tokens: number, random: () => number) => TrafficPrompt["content"];
}

export function randomPrompts(options: RandomPromptOptions): readonly TrafficPrompt[] {
  const { count, inputLength, outputLength, rangeRatio, random, content } = options;
  const length = (most: number) => {
    const least = Math.max(1, Math.floor(most * rangeRatio));
    return least + Math.floor(random() * (most - least + 1));
  };
  return Array.from({ length: count }, () => ({
    content: content(length(inputLength), random),
    maxNewTokens: length(outputLength),
  }));
}

export function randomTokens(count: number, random: () => number): readonly number[] {
  return Array.from({ length: count }, () => FIRST_TOKEN + Math.floor(random() * TOKENS));
}

export function randomWords(count: number, random: () => number): string {
  return Array.from({ length: count }, () => WORDS[Math.floor(random() * WORDS.length)]!).join(" ");
}

/**
 * Learns how many words make a prompt of so many tokens, from what the server counts for two texts:
 * a chat template adds tokens of its own, and a word may be more than one.
 *
 * @param count Prompt tokens of a text, as the server counts them; 0 when it does not say.
 */
export async function learnTextLength(
  count: (text: string) => Promise<number>,
  random: () => number,
): Promise<RandomPromptOptions["content"]> {
  const [few, many] = [8, 136];
  const least = await count(randomWords(few, random));
  const perWord = ((await count(randomWords(many, random))) - least) / (many - few);
  if (!(perWord > 0)) return randomWords;
  const frame = least - few * perWord;
  return (tokens) => randomWords(Math.max(1, Math.round((tokens - frame) / perWord)), random);
}
