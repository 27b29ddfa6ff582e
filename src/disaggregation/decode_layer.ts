/**
 * An engine that answers requests whose prompts another one computes.
 *
 * @module
 */
import type { BegunAnswer } from "../bootstrap.ts";
import type { LocalRequest } from "../engine/create_sequence.ts";
import { InvalidRequestError } from "../errors.ts";
import type { GenerationChunk } from "../generation.ts";
import { type LogprobOptions, logprobBytes } from "../logprobs.ts";
import type { DecodeRooms } from "./decode_rooms.ts";
import type { TravelEngine } from "./prefill_layer.ts";
import { requireRoom } from "./prefill_rooms.ts";

export async function* decoded(
  engine: TravelEngine,
  rooms: DecodeRooms,
  request: LocalRequest,
): AsyncGenerator<GenerationChunk, undefined> {
  const { bootstrap, logprobs, ...asked } = request;
  requireRoom(bootstrap?.room, request.requestId);
  const own = begunRequest(request, asked);
  const wantsPrompt = logprobs?.promptStart !== undefined;
  const room = rooms.open(bootstrap!, wantsPrompt);
  let isUntold = wantsPrompt;
  let isFirst = true;
  const begun = new BegunTokens(own.given === undefined ? bootstrap?.begun : undefined);
  try {
    const chunks = engine.generate({
      ...own,
      // Of several engines its number says which one answers.
      ...(bootstrap && { bootstrap }),
      pageSource: room,
      ...(logprobs && { logprobs: withoutPrompt(logprobs) }),
    });
    for await (const chunk of chunks) {
      begun.compare(chunk.tokens);
      const tellsPrompt = isUntold && chunk.tokens.length > 0;
      if (tellsPrompt) isUntold = false;
      yield {
        ...chunk,
        // As the one engine would say that had computed all of it.
        cachedTokens: Math.max(chunk.cachedTokens, room.cachedTokens),
        ...(tellsPrompt && { promptLogprobs: room.promptLogprobs }),
        ...(isFirst && wantsPrompt && { logprobBytes: bytesOf(chunk, logprobs, room) }),
      };
      isFirst = false;
    }
  } finally {
    room.leave();
  }
}

/** A request that goes on with an answer: with its tokens, where none has to be drawn again. */
function begunRequest(
  { bootstrap, logprobs, logitProcessors = [] }: LocalRequest,
  asked: LocalRequest,
): LocalRequest {
  const { begun } = bootstrap!;
  if (begun === undefined) return asked;
  const { seed = begun.seed } = asked.sampling ?? {};
  const isDrawn = logprobs !== undefined || logitProcessors.length > 0;
  const given = isDrawn ? undefined : begun.tokens;
  return { ...asked, sampling: { ...asked.sampling, seed }, given };
}

/** Tokens of an answer that another server has begun, which are drawn again here. */
class BegunTokens {
  readonly #tokens: readonly number[];
  #compared = 0;

  constructor(begun: BegunAnswer | undefined) {
    this.#tokens = begun?.tokens ?? [];
  }

  /** @throws {InvalidRequestError} where the answer goes on otherwise, which is no failure of a server. */
  compare(tokens: readonly number[]): void {
    for (const token of tokens) {
      if (this.#compared >= this.#tokens.length) return;
      if (token !== this.#tokens[this.#compared]) {
        const state = `token ${this.#compared} of it is another one here`;
        throw new InvalidRequestError(`Cannot go on with the answer: ${state}`, "bootstrap_begun");
      }
      this.#compared += 1;
    }
  }
}

/** The prompt's are told by the engine that computes it. */
function withoutPrompt({ promptStart: _, ...others }: LogprobOptions): LogprobOptions {
  return others;
}

/** Bytes that all log-probabilities take, those of the prompt too. */
function bytesOf(
  { logprobBytes: own = 0 }: GenerationChunk,
  options: LogprobOptions,
  { promptLogprobs }: { readonly promptLogprobs: readonly unknown[] },
): number {
  return own + logprobBytes(options, { prompt: promptLogprobs.length, completion: 0 });
}
