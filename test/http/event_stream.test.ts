import { expect, test, vi } from "vitest";
import { eventStream, JsonText } from "../../src/http/event_stream.ts";
import { eventLines } from "../support/server/http_client.ts";

async function* numbers(count: number, onEnd = () => {}): AsyncGenerator<number> {
  try {
    for (let i = 0; i < count; i++) yield i;
  } finally {
    onEnd();
  }
}

const failure = (error: unknown) => ({ error: String(error) });

test("eventStream sends every event on a line of its own, then [DONE]", async () => {
  const response = eventStream(numbers(2), {
    events: (n) => [{ n }, { square: n * n }],
    last: () => [{ last: true }],
    failure,
  });
  expect(response.headers.get("content-type")).toBe("text/event-stream");
  expect(await response.text()).toBe(
    'data: {"n":0}\n\ndata: {"square":0}\n\ndata: {"n":1}\n\ndata: {"square":1}\n\n' +
      'data: {"last":true}\n\ndata: [DONE]\n\n',
  );
});

test("eventStream sends JSON that is written already as it is", async () => {
  const response = eventStream(numbers(1), {
    events: () => [new JsonText('{"a": 1}'), 2],
    failure,
  });
  expect(await eventLines(response)).toEqual(['{"a": 1}', "2", "[DONE]"]);
});

test("eventStream goes on past items without events", async () => {
  const response = eventStream(numbers(100), { events: (n) => (n % 50 ? [] : [n]), failure });
  expect(await eventLines(response)).toEqual(["0", "50", "[DONE]"]);
});

test("eventStream of nothing is [DONE]", async () => {
  const response = eventStream(numbers(0), { events: (n) => [n], failure });
  expect(await eventLines(response)).toEqual(["[DONE]"]);
});

test("eventStream calls return() before cancel() resolves", async () => {
  const onEnd = vi.fn();
  const response = eventStream(numbers(1000, onEnd), { events: (n) => [n], failure });
  const reader = response.body!.getReader();
  await reader.read();
  await reader.cancel();
  expect(onEnd).toHaveBeenCalledOnce();
});

test("eventStream calls return() while an item is awaited", async () => {
  const onReturn = vi.fn();
  const items: AsyncIterable<number> = {
    [Symbol.asyncIterator]: () => ({
      next: () => new Promise(() => {}),
      return: async () => {
        onReturn();
        return { done: true, value: undefined };
      },
    }),
  };
  const reader = eventStream(items, { events: (n) => [n], failure }).body!.getReader();
  const read = reader.read();
  await reader.cancel();
  expect(onReturn).toHaveBeenCalledOnce();
  expect((await read).done).toBe(true);
});

test("eventStream tells of an error and ends", async () => {
  async function* broken(): AsyncGenerator<number> {
    yield 1;
    throw new Error("torn");
  }
  const response = eventStream(broken(), { events: (n) => [n], failure });
  expect(await eventLines(response)).toEqual(["1", '{"error":"Error: torn"}', "[DONE]"]);
});

test("eventStream stops the items when an event cannot be made", async () => {
  const onEnd = vi.fn();
  const events = () => {
    throw new Error("no event");
  };
  const response = eventStream(numbers(9, onEnd), { events, failure });
  expect(await eventLines(response)).toEqual(['{"error":"Error: no event"}', "[DONE]"]);
  expect(onEnd).toHaveBeenCalledOnce();
});

test("eventStream pulls no faster than it is read", async () => {
  let pulled = 0;
  const response = eventStream(numbers(1000), {
    events: (n) => {
      pulled++;
      return [n];
    },
    failure,
  });
  const reader = response.body!.getReader();
  await reader.read();
  await new Promise((resolve) => setTimeout(resolve, 5));
  expect(pulled).toBeLessThanOrEqual(3);
  await reader.cancel();
});

test("eventStream ends without a word when the items were aborted", async () => {
  async function* aborted(): AsyncGenerator<number> {
    yield 1;
    throw new DOMException("The client left", "AbortError");
  }
  const response = eventStream(aborted(), { events: (n) => [n], failure });
  expect(await eventLines(response)).toEqual(["1"]);
});
