/**
 * A client of a server, and what it sees.
 *
 * @module
 */

/** A prompt that has many pages, other ones for each number. */
export const promptOf = (number: number): string =>
  `${number} times someone told of the sea, the wind and the weather of the north. `.repeat(4);

/** How an answer ended: as it should, or in one of the ways in which clients are told that it did not. */
export type Ending =
  | "the answer"
  | `status ${number}`
  | `event with ${number}`
  | "a broken connection"
  | "it left";

export interface Seen {
  readonly ending: Ending;
  /** What an error says. */
  readonly said: string;
  /** Tokens that came, in order. */
  readonly ids: readonly number[];
}

export interface AskOptions {
  readonly signal?: AbortSignal;
  /** Called with each event, the first being 1. */
  readonly onEvent?: (number: number) => void;
}

interface GenerateEvent {
  readonly output_ids?: readonly number[];
  readonly error?: { readonly code?: unknown; readonly message?: unknown; readonly type?: unknown };
}

/** Asks for a stream of `/generate`. An error without a type or a message is none that is told. */
export async function follow(url: string, body: object, options: AskOptions = {}): Promise<Seen> {
  const { signal, onEvent } = options;
  let ids: readonly number[] = [];
  try {
    const response = await fetch(`${url}/generate`, {
      method: "POST",
      headers: { "content-type": "application/json" },
      body: JSON.stringify({ ...body, stream: true }),
      ...(signal && { signal }),
    });
    if (response.status !== 200) {
      const text = await response.text();
      requireTyped(JSON.parse(text) as GenerateEvent);
      return { ending: `status ${response.status}`, said: text, ids };
    }
    let waiting = "";
    let events = 0;
    for await (const part of response.body!.pipeThrough(new TextDecoderStream())) {
      const lines = (waiting + part).split("\n\n");
      waiting = lines.pop()!;
      for (const line of lines) {
        const text = line.replace(/^data: /, "");
        if (text === "[DONE]") return { ending: "the answer", said: "", ids };
        const event = JSON.parse(text) as GenerateEvent;
        if (event.error !== undefined) {
          requireTyped(event);
          return { ending: `event with ${Number(event.error.code)}`, said: text, ids };
        }
        ids = event.output_ids!;
        events += 1;
        onEvent?.(events);
      }
    }
    return { ending: "a broken connection", said: "the stream ends without its end", ids };
  } catch (error) {
    if (error instanceof UntypedError || error instanceof SyntaxError) throw error;
    const ending = signal?.aborted ? "it left" : "a broken connection";
    return { ending, said: String((error as Error).cause ?? error), ids };
  }
}

class UntypedError extends Error {}

function requireTyped(event: GenerateEvent): void {
  const { message, type, code } = event.error ?? {};
  const isTyped = [message, type].every((one) => typeof one === "string") && code !== undefined;
  if (!isTyped) throw new UntypedError(`Cannot tell what failed: ${JSON.stringify(event)}`);
}
