/**
 * An engine that answers requests whose prompts another one computes.
 *
 * @module
 */
import type { LocalRequest } from "../engine/create_sequence.ts";
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
  const { bootstrap, logprobs, ...own } = request;
  requireRoom(bootstrap?.room, request.requestId);
  const wantsPrompt = logprobs?.promptStart !== undefined;
  const room = rooms.open(bootstrap!, wantsPrompt);
  let isUntold = wantsPrompt;
  let isFirst = true;
  try {
    const chunks = engine.generate({
      ...own,
      pageSource: room,
      ...(logprobs && { logprobs: withoutPrompt(logprobs) }),
    });
    for await (const chunk of chunks) {
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
