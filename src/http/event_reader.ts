/**
 * The events of a server's stream, as they come.
 *
 * @module
 */
import { EngineError } from "../errors.ts";

/** A stream that is no stream of events, or that ends before it says so. */
export class BrokenStreamError extends EngineError {
  readonly code = "broken_stream";
}

/** Characters of one event at most: a server that never ends a line must not fill the memory. */
const LONGEST_EVENT = 2 ** 24;

const DATA = "data:";
const DONE = "[DONE]";

/**
 * The payload of each event up to `[DONE]`. A reader that stops ends the request.
 *
 * @throws {BrokenStreamError} when the stream ends without `[DONE]`, or an event is too long.
 */
export async function* readEvents(body: ReadableStream<Uint8Array>): AsyncGenerator<string, void> {
  const reader = body.pipeThrough(new TextDecoderStream() as Decoder).getReader();
  let pending = "";
  try {
    for (;;) {
      const { done, value } = await reader.read();
      if (done) break;
      const lines = (pending + value).split("\n");
      pending = lines.pop()!;
      if (pending.length > LONGEST_EVENT)
        throw new BrokenStreamError("Cannot read the answer: an event is too long");
      for (const line of lines) {
        if (!line.startsWith(DATA)) continue;
        const payload = line.slice(DATA.length).trim();
        if (payload === DONE) return;
        yield payload;
      }
    }
  } finally {
    await reader.cancel().catch(() => {});
  }
  throw new BrokenStreamError("Cannot read the answer: it was broken off");
}

/** TypeScript's types of streams disagree on the bytes that a decoder takes. */
type Decoder = ReadableWritablePair<string, Uint8Array>;
