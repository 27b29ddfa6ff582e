/**
 * Requests of all kinds to `/generate`, drawn at random, and what of two answers must be the same.
 *
 * @module
 */
import type { GenerateAnswer } from "../../../support/server/http_client.ts";

/** A whole number from 0 on, below `count`. */
export type Draw = (count: number) => number;

const WORDS = "the sea a wind of north and weather old ships lights no one came over".split(" ");

export function drawnText(draw: Draw, words: number): string {
  const text = Array.from({ length: 1 + draw(words) }, () => WORDS[draw(WORDS.length)]);
  return `${draw(1000)} ${text.join(" ")}.`;
}

/** How the client of a request ends it, if it does. */
export type Leaving =
  | { readonly how: "stays" }
  /** Closes its connection, or has its request aborted, so many milliseconds behind its beginning. */
  | { readonly how: "leaves" | "aborts"; readonly after: number };

export interface DrawnRequest {
  /** Milliseconds behind the beginning of all. */
  readonly at: number;
  readonly body: object;
  readonly leaving: Leaving;
}

function drawnSampling(draw: Draw): object {
  const most = 1 + draw(draw(4) === 0 ? 120 : 30);
  const length = { max_new_tokens: most, ignore_eos: draw(3) > 0 };
  const drawn = { temperature: 0.9, top_k: 40, sampling_seed: draw(1000) };
  return {
    ...length,
    ...(draw(2) === 0 ? { temperature: 0 } : drawn),
    ...(draw(4) === 0 && { repetition_penalty: 1.3 }),
    ...(draw(6) === 0 && { frequency_penalty: 0.4, presence_penalty: 0.2 }),
    ...(draw(6) === 0 && { min_new_tokens: Math.min(1, most - 1), stop: ["e"] }),
    ...drawnConstraint(draw(8)),
  };
}

function drawnConstraint(kind: number): object {
  if (kind === 0) return { regex: "[a-z]{3}( [0-9]{2})+" };
  if (kind !== 1) return {};
  const properties = { name: { type: "string" }, count: { type: "integer" } };
  return { json_schema: JSON.stringify({ type: "object", properties, required: ["name"] }) };
}

export function drawnRequest(draw: Draw, rid: string): DrawnRequest {
  const text =
    draw(8) === 0
      ? [drawnText(draw, 20), drawnText(draw, 60)]
      : drawnText(draw, draw(3) === 0 ? 120 : 20);
  const logprobs = {
    ...{ return_logprob: true, top_logprobs_num: draw(3) },
    ...(draw(2) === 0 && { logprob_start_len: 0 }),
  };
  // Not of a batch, whose ids are several.
  const named = typeof text === "string" ? { rid } : {};
  const n = draw(6) === 0 ? { n: 2 + draw(2) } : {};
  const after = draw(1500);
  const leavings: readonly Leaving[] = [
    { how: "leaves", after },
    { how: "aborts", after },
  ];
  return {
    at: draw(1200),
    body: {
      ...{ text, sampling_params: { ...drawnSampling(draw), ...n } },
      ...named,
      ...(draw(2) === 0 && { stream: true }),
      ...(draw(3) === 0 && logprobs),
    },
    leaving: draw(5) === 0 ? leavings[draw("rid" in named ? 2 : 1)]! : { how: "stays" },
  };
}

/** Of an answer what must be the same wherever it comes from: all but names and times. */
export function bitsOf({ text, output_ids, meta_info }: GenerateAnswer): object {
  const { id: _, e2e_latency: __, cached_tokens: ___, ...rest } = meta_info;
  return { text, output_ids, ...rest };
}
