/**
 * Log-probabilities as the two endpoints write them.
 *
 * @module
 */
import type { GenerationChunk } from "../../generation.ts";
import type {
  LogprobOptions,
  PromptLogprobs,
  TokenLogprob,
  TokenLogprobs,
} from "../../logprobs.ts";

/** All null for an embedding, which is no token. */
type Triple = readonly [logprob: number | null, token: number | null, text: string | null];
type Triples = readonly Triple[] | null;

const triple = ({ logprob, token, text }: TokenLogprob | PromptLogprobs): Triple => [
  logprob,
  token,
  text ?? null,
];

const triples = (list: readonly TokenLogprob[] | null): Triples => list?.map(triple) ?? null;

/** The lists in `meta_info` of `/generate`, which grow with the completion. */
export class WireLogprobs {
  readonly #lists: Readonly<Record<string, (Triple | Triples)[]>>;

  constructor({ topCount = 0, tokenIds }: LogprobOptions) {
    this.#lists = {
      input_token_logprobs: [],
      output_token_logprobs: [],
      ...(topCount > 0 && { input_top_logprobs: [], output_top_logprobs: [] }),
      ...(tokenIds !== undefined && {
        input_token_ids_logprobs: [],
        output_token_ids_logprobs: [],
      }),
    };
  }

  append({ logprobs = [], promptLogprobs = [] }: GenerationChunk): void {
    for (const entry of promptLogprobs) this.#push("input", entry);
    for (const entry of logprobs) this.#push("output", entry);
  }

  /** They go on growing: write them down before the next `append`. */
  toWire(): object {
    return this.#lists;
  }

  #push(side: "input" | "output", entry: PromptLogprobs): void {
    this.#lists[`${side}_token_logprobs`]!.push(triple(entry));
    this.#lists[`${side}_top_logprobs`]?.push(triples(entry.top));
    this.#lists[`${side}_token_ids_logprobs`]?.push(triples(entry.given));
  }
}

/** `choices[].logprobs` of chat answers. */
export function wireChatLogprobs(entries: readonly TokenLogprobs[]): object {
  return {
    content: entries.map((entry) => ({
      ...chatToken(entry),
      top_logprobs: (entry.top ?? []).map(chatToken),
    })),
  };
}

/** `choices[].logprobs` of completions: parallel lists, and the likeliest tokens by their text. */
export function wireCompletionLogprobs(entries: readonly PromptLogprobs[]): object {
  return {
    // Where a token stands in the text is not told: tokens may end inside a character.
    text_offset: entries.map(() => -1),
    token_logprobs: entries.map(({ logprob }) => logprob),
    tokens: entries.map(({ text = "" }) => text),
    top_logprobs: entries.map(({ top }) => (top === null ? null : byText(top))),
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
