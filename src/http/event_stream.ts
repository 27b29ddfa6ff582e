/**
 * Server-sent events out of an async iterable.
 *
 * Everything happens inside one `ReadableStream`, without a transform behind it: a client that
 * leaves is a `cancel` here, and `cancel` calls the iterator's `return()` at once.
 *
 * @module
 */

export interface EventStreamOptions<T> {
  /** The events of one item, each sent as JSON; none is fine. */
  readonly events: (item: T) => readonly unknown[];
  /** The events after the last item. */
  readonly last?: () => readonly unknown[];
  /** The event that tells the client of an error; it is followed by the end of the stream. */
  readonly failure: (error: unknown) => unknown;
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
  { events, last = () => [], failure }: EventStreamOptions<T>,
): Response {
  const iterator = items[Symbol.asyncIterator]();
  const encoder = new TextEncoder();
  let left = false;

  const body = new ReadableStream<Uint8Array>({
    async pull(controller) {
      let text = "";
      let ended = false;
      try {
        // An item without events must not end the pull: nothing would start another one.
        while (text === "" && !left) {
          const { done, value } = await iterator.next();
          text = serialize(done ? last() : events(value));
          if (!done) continue;
          ended = true;
          break;
        }
      } catch (error) {
        text = serialize([failure(error)]);
        ended = true;
        // The fault may lie in `events`, in which case the iterator does not know of it.
        await iterator.return?.();
      }
      if (left) return;
      controller.enqueue(encoder.encode(ended ? text + DONE : text));
      if (ended) controller.close();
    },
    async cancel() {
      left = true;
      await iterator.return?.();
    },
  });
  return new Response(body, { headers: HEADERS });
}

function serialize(events: readonly unknown[]): string {
  let text = "";
  for (const event of events) text += `data: ${JSON.stringify(event)}\n\n`;
  return text;
}
