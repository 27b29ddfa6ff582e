/**
 * Server-sent events out of an async iterable.
 *
 * Everything happens inside one `ReadableStream`, without a transform behind it: a client that
 * leaves is a `cancel` here, and `cancel` calls the iterator's `return()` at once.
 *
 * @module
 */
import { turns } from "../turns.ts";
import { isLong, jsonPieces, PIECE_LENGTH } from "./long_json.ts";

export interface EventStreamOptions<T> {
  /** The events of one item, each sent as JSON, or as the `JsonText` that it is; none is fine. */
  readonly events: (item: T) => readonly unknown[];
  /** The events after the last item. */
  readonly last?: () => readonly unknown[];
  /** The event that tells the client of an error; it is followed by the end of the stream. */
  readonly failure: (error: unknown) => unknown;
  /** Called once the stream is over, for whatever reason. Default: nothing is. */
  readonly ended?: () => void;
  /** Default "data". */
  readonly form?: EventForm;
}

/**
 * How events stand on the wire: "data" as a line `data:` each, with `[DONE]` behind the last one;
 * "named" with their `type` in a line `event:` before it, and nothing behind the last one; "lines" as
 * a line of JSON each.
 */
export type EventForm = "data" | "named" | "lines";

/** An event whose JSON is written already, or begins with what is. */
export class JsonText {
  readonly json: string;
  /** What stands behind it, an object without its opening brace. */
  readonly rest: object | undefined;

  constructor(json: string, rest?: object) {
    this.json = json;
    this.rest = rest;
  }
}

const HEADERS: Readonly<Record<string, string>> = {
  "cache-control": "no-cache",
  // Reverse proxies collect small pieces unless told not to.
  "x-accel-buffering": "no",
};

interface Framing {
  readonly contentType: string;
  readonly before: (event: unknown) => string;
  readonly behind: string;
  /** Behind the last event. */
  readonly done: string;
}

const EVENTS = "text/event-stream";

const FRAMINGS: Readonly<Record<EventForm, Framing>> = {
  data: {
    contentType: EVENTS,
    before: () => "data: ",
    behind: "\n\n",
    done: "data: [DONE]\n\n",
  },
  named: {
    contentType: EVENTS,
    before: (event) => `event: ${(event as { readonly type: string }).type}\ndata: `,
    behind: "\n\n",
    done: "",
  },
  lines: { contentType: "application/x-ndjson", before: () => "", behind: "\n", done: "" },
};

/** Sends each event in the form that is asked for. Items are pulled as they are read. */
export function eventStream<T>(
  items: AsyncIterable<T>,
  { events, last = () => [], failure, ended = () => {}, form = "data" }: EventStreamOptions<T>,
): Response {
  const iterator = items[Symbol.asyncIterator]();
  const encoder = new TextEncoder();
  const framing = FRAMINGS[form];
  /** What is left to write of the last item. */
  let pieces = frames([], framing);
  let isEnding = false;
  let left = false;

  const body = new ReadableStream<Uint8Array>({
    async pull(controller) {
      try {
        // An item without events must not end the pull: nothing would start another one.
        for (;;) {
          const piece = pieces.next();
          if (!piece.done) {
            controller.enqueue(encoder.encode(piece.value));
            // Small events follow each other as they come.
            if (piece.value.length >= PIECE_LENGTH) await turns.take();
            return;
          }
          if (isEnding) {
            controller.close();
            ended();
            return;
          }
          const { done, value } = await iterator.next();
          if (left) return;
          isEnding = done === true;
          pieces = done ? frames(last(), framing, framing.done) : frames(events(value), framing);
        }
      } catch (error) {
        // The fault may lie in `events`, in which case the iterator does not know of it.
        try {
          await iterator.return?.();
        } finally {
          ended();
        }
        if (left) return;
        if (!isAbort(error)) {
          for (const text of frames([failure(error)], framing, framing.done))
            controller.enqueue(encoder.encode(text));
        }
        controller.close();
      }
    },
    async cancel() {
      left = true;
      ended();
      await iterator.return?.();
    },
  });
  return new Response(body, { headers: { "content-type": framing.contentType, ...HEADERS } });
}

/** A client that leaves may be known by its signal before it cancels the body: it wants no news. */
function isAbort(error: unknown): boolean {
  return error instanceof DOMException && error.name === "AbortError";
}

/** The events as they stand on the wire: together, but for what is long. */
function* frames(
  events: readonly unknown[],
  { before, behind: behindEach }: Framing,
  end = "",
): Generator<string, void> {
  let text = "";
  for (const event of events) {
    const isBegun = event instanceof JsonText;
    const rest: unknown = isBegun ? event.rest : event;
    // What is written already ends where the rest, an object, has its opening brace.
    const cut = isBegun ? 1 : 0;
    text += isBegun ? before(event) + event.json : before(event);
    if (isLong(rest)) {
      yield text;
      yield* behind(cut, jsonPieces(rest));
      text = "";
    } else if (!isBegun || rest !== undefined) text += JSON.stringify(rest).slice(cut);
    text += behindEach;
  }
  if (text + end !== "") yield text + end;
}

/** The pieces of a text without its first characters, which are all in the first piece. */
function* behind(cut: number, pieces: Iterable<string>): Generator<string, void> {
  let first = cut;
  for (const piece of pieces) {
    yield piece.slice(first);
    first = 0;
  }
}
