/**
 * Log-probabilities as the two endpoints write them.
 *
 * @module
 */
import type { GenerationChunk } from "../../generation.ts";
import { JsonList } from "../../http/long_json.ts";
import type {
  LogprobOptions,
  PromptLogprobs,
  TokenLogprob,
  TokenLogprobs,
} from "../../logprobs.ts";

/** All null for an embedding, which is no token. */
type Triple = readonly [logprob: number | null, token: number | null, text: string | null];

const triple = ({ logprob, token, text }: TokenLogprob | PromptLogprobs): Triple => [
  logprob,
  token,
  text ?? null,
];

const triples = (list: readonly TokenLogprob[] | null) => list && new JsonList(list, triple);

type Entry = PromptLogprobs | TokenLogprobs;

/** The lists in `meta_info` of `/generate`, which grow with the completion. */
export class WireLogprobs {
  readonly #prompt: PromptLogprobs[] = [];
  readonly #completion: TokenLogprobs[] = [];
  readonly #lists: Readonly<Record<string, JsonList<Entry>>>;

  constructor({ topCount = 0, tokenIds }: LogprobOptions) {
    const both = (name: string, item: (entry: Entry) => unknown, weight: number) => ({
      [`input_${name}`]: new JsonList<Entry>(this.#prompt, item, () => weight),
      [`output_${name}`]: new JsonList<Entry>(this.#completion, item, () => weight),
    });
    this.#lists = {
      ...both("token_logprobs", triple, 1),
      ...(topCount > 0 && both("top_logprobs", ({ top }) => triples(top), topCount)),
      ...(tokenIds !== undefined &&
        both("token_ids_logprobs", ({ given }) => triples(given), tokenIds.length)),
    };
  }

  /** Numbers and texts of all lists. */
  get weight(): number {
    return Object.values(this.#lists).reduce((sum, list) => sum + list.weight, 0);
  }

  append({ logprobs = [], promptLogprobs = [] }: GenerationChunk): void {
    for (const entry of promptLogprobs) this.#prompt.push(entry);
    for (const entry of logprobs) this.#completion.push(entry);
  }

  /** They go on growing: write them down before the next `append`. */
  toWire(): object {
    return this.#lists;
  }
}

/** `choices[].logprobs` of chat answers. */
export function wireChatLogprobs(entries: readonly TokenLogprobs[], topCount: number): object {
  const item = (entry: TokenLogprobs) => ({
    ...chatToken(entry),
    top_logprobs: new JsonList(entry.top ?? [], chatToken),
  });
  return { content: new JsonList(entries, item, () => 1 + topCount) };
}

/** `choices[].logprobs` of completions: parallel lists, and the likeliest tokens by their text. */
export function wireCompletionLogprobs(
  entries: readonly PromptLogprobs[],
  topCount: number,
): object {
  const likeliest = ({ top }: PromptLogprobs) => (top === null ? null : byText(top));
  return {
    // Where a token stands in the text is not told: tokens may end inside a character.
    text_offset: new JsonList(entries, () => -1),
    token_logprobs: new JsonList(entries, ({ logprob }) => logprob),
    tokens: new JsonList(entries, ({ text = "" }) => text),
    top_logprobs: new JsonList(entries, likeliest, () => topCount),
  };
}

/** Of tokens with the same text the likeliest is told about. */
function byText(top: readonly TokenLogprob[]): object {
  const logprobs = new Map<string, number>();
  for (const { text = "", logprob } of top) {
    if (!logprobs.has(text)) logprobs.set(text, logprob);
  }
  return Object.fromEntries(logprobs);
}

function chatToken({ text = "", logprob }: TokenLogprob | TokenLogprobs): object {
  return { token: text, bytes: Array.from(new TextEncoder().encode(text)), logprob };
}
