/**
 * Server-sent events out of an async iterable.
 *
 * Everything happens inside one `ReadableStream`, without a transform behind it: a client that
 * leaves is a `cancel` here, and `cancel` calls the iterator's `return()` at once.
 *
 * @module
 */

export interface EventStreamOptions<T> {
  /** The events of one item, each sent as JSON, or as the `JsonText` that it is; none is fine. */
  readonly events: (item: T) => readonly unknown[];
  /** The events after the last item. */
  readonly last?: () => readonly unknown[];
  /** The event that tells the client of an error; it is followed by the end of the stream. */
  readonly failure: (error: unknown) => unknown;
  /** Called once the stream is over, for whatever reason. Default: nothing is. */
  readonly ended?: () => void;
}

/** An event whose JSON is written already. */
export class JsonText {
  readonly json: string;

  constructor(json: string) {
    this.json = json;
  }
}

const HEADERS: Readonly<Record<string, string>> = {
  "content-type": "text/event-stream",
  "cache-control": "no-cache",
  // Reverse proxies collect small pieces unless told not to.
  "x-accel-buffering": "no",
};

const DONE = "data: [DONE]\n\n";

/** Sends each event as one `data:` line, then `data: [DONE]`. Items are pulled as they are read. */
export function eventStream<T>(
  items: AsyncIterable<T>,
  { events, last = () => [], failure, ended = () => {} }: EventStreamOptions<T>,
): Response {
  const iterator = items[Symbol.asyncIterator]();
  const encoder = new TextEncoder();
  let left = false;

  const body = new ReadableStream<Uint8Array>({
    async pull(controller) {
      let text = "";
      try {
        // An item without events must not end the pull: nothing would start another one.
        while (text === "") {
          const { done, value } = await iterator.next();
          if (left) return;
          if (done) {
            controller.enqueue(encoder.encode(serialize(last()) + DONE));
            controller.close();
            ended();
            return;
          }
          text = serialize(events(value));
        }
        controller.enqueue(encoder.encode(text));
      } catch (error) {
        // The fault may lie in `events`, in which case the iterator does not know of it.
        await iterator.return?.();
        ended();
        if (left) return;
        if (!isAbort(error)) controller.enqueue(encoder.encode(serialize([failure(error)]) + DONE));
        controller.close();
      }
    },
    async cancel() {
      left = true;
      ended();
      await iterator.return?.();
    },
  });
  return new Response(body, { headers: HEADERS });
}

/** A client that leaves may be known by its signal before it cancels the body: it wants no news. */
function isAbort(error: unknown): boolean {
  return error instanceof DOMException && error.name === "AbortError";
}

function serialize(events: readonly unknown[]): string {
  let text = "";
  for (const event of events) {
    text += `data: ${event instanceof JsonText ? event.json : JSON.stringify(event)}\n\n`;
  }
  return text;
}
