/**
 * An engine that computes prompts of requests which another one answers. Each answer here is one
 * token, and ends when the pages of its prompt are where they are wanted.
 *
 * @module
 */
import type { LocalRequest } from "../engine/create_sequence.ts";
import type { FinishReason, GenerationChunk, GenerationEngine } from "../generation.ts";
import type { PromptLogprobs } from "../logprobs.ts";
import type { PrefillRoom } from "./prefill_room.ts";
import { type PrefillRooms, requireRoom } from "./prefill_rooms.ts";

/** An engine that knows routes of pages. */
export interface TravelEngine extends GenerationEngine {
  generate(request: LocalRequest): AsyncIterableIterator<GenerationChunk, undefined>;
}

/** No token of an answer is given here. */
const FINISH = { type: "length", length: 0 } as const;

export async function* prefilled(
  engine: TravelEngine,
  rooms: PrefillRooms,
  request: LocalRequest,
): AsyncGenerator<GenerationChunk, undefined> {
  const { bootstrap, requestId } = request;
  const ticket = bootstrap?.ticket;
  const owner = typeof ticket === "string" ? ticket : undefined;
  const room = rooms.open(requireRoom(bootstrap?.room, requestId), requestId, owner);
  const chunks = engine.generate({ ...request, pageTaker: room });
  // A client that leaves while its room is waited for ends the request too.
  const { signal } = request;
  const onAbort = () => room.fail(signal!.reason ?? new DOMException("Aborted", "AbortError"));
  signal?.addEventListener("abort", onAbort, { once: true });
  try {
    yield* chunksOf(chunks, room);
  } catch (error) {
    room.fail(error);
    throw error;
  } finally {
    signal?.removeEventListener("abort", onAbort);
    room.fail(new DOMException("The request has ended on the prefill server", "AbortError"));
    await chunks.return?.();
  }
}

async function* chunksOf(
  chunks: AsyncIterator<GenerationChunk, undefined>,
  room: PrefillRoom,
): AsyncGenerator<GenerationChunk, undefined> {
  let promptLogprobs: readonly PromptLogprobs[] | undefined;
  let last: GenerationChunk | undefined;
  const skipped = room.over.then(() => "skipped" as const);
  // Told by `room.over` where nothing waits for it.
  skipped.catch(() => {});
  for (;;) {
    const next = await Promise.race([chunks.next(), skipped]);
    if (next === "skipped") {
      yield skippedChunk(last, room);
      return;
    }
    if (next.done) return;
    const chunk = next.value;
    last = chunk;
    promptLogprobs ??= chunk.promptLogprobs;
    if (chunk.finish === null) {
      yield chunk;
      continue;
    }
    if (chunk.finish.type === "abort") {
      room.fail(new DOMException(chunk.finish.message, "AbortError"));
      yield chunk;
      return;
    }
    room.computed(promptLogprobs);
    yield { ...chunk, finish: await finishOf(room) };
    return;
  }
}

/** How a request ends that the engine has ended. @throws why its pages do not leave. */
async function finishOf(room: PrefillRoom): Promise<FinishReason> {
  try {
    await room.over;
    return FINISH;
  } catch (error) {
    if (room.isAborted) return { type: "abort", message: "Aborted" };
    throw error;
  }
}

/** The last chunk of a request of which nothing was wanted. */
function skippedChunk(last: GenerationChunk | undefined, room: PrefillRoom): GenerationChunk {
  const { promptTokens } = room;
  const begun = { requestId: room.name, promptTokens, completionTokens: 0, cachedTokens: 0 };
  return { ...begun, ...last, text: "", tokens: [], finish: FINISH };
}
