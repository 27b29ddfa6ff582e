/**
 * A client of a server, and what it sees.
 *
 * @module
 */
import type { GenerateAnswer } from "../../../support/server/http_client.ts";

/** A prompt that has many pages, other ones for each number. */
export const promptOf = (number: number): string =>
  `${number} times a tale was told of the sea, the wind and the weather of the north. `.repeat(4);

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
  /** Of each prompt and completion, as far as they came. */
  readonly answers: readonly GenerateAnswer[];
}

export interface AskOptions {
  readonly signal?: AbortSignal | undefined;
  /** Called with each event of a stream, the first being 1. */
  readonly onEvent?: ((number: number) => void) | undefined;
}

interface Told {
  readonly error?: { readonly code?: unknown; readonly message?: unknown; readonly type?: unknown };
}

/** Tokens of the first answer, as far as they came. */
export const idsOf = ({ answers }: Pick<Seen, "answers">): readonly number[] =>
  answers[0]?.output_ids ?? [];

/**
 * Asks `/generate`.
 *
 * @throws {UntypedError} for an error without a type, a code or a message: its client is not told.
 */
export async function ask(url: string, body: object, options: AskOptions = {}): Promise<Seen> {
  const { signal } = options;
  const answers: GenerateAnswer[] = [];
  try {
    const response = await fetch(`${url}/generate`, {
      method: "POST",
      headers: { "content-type": "application/json" },
      body: JSON.stringify(body),
      ...(signal && { signal }),
    });
    if (response.status === 200 && "stream" in body) {
      return { ...(await readEvents(response.body!, answers, options)), answers };
    }
    const text = await response.text();
    const told = JSON.parse(text) as Told;
    if (response.status !== 200) {
      requireTyped(told);
      return { ending: `status ${response.status}`, said: text, answers };
    }
    return { ending: "the answer", said: "", answers: [told].flat() as GenerateAnswer[] };
  } catch (error) {
    if (error instanceof UntypedError || error instanceof SyntaxError) throw error;
    const ending = signal?.aborted ? "it left" : "a broken connection";
    return { ending, said: String((error as Error).cause ?? error), answers };
  }
}

/** Keeps the newest event of each answer. */
async function readEvents(
  body: ReadableStream<Uint8Array>,
  answers: GenerateAnswer[],
  { onEvent }: AskOptions,
): Promise<Omit<Seen, "answers">> {
  let waiting = "";
  let events = 0;
  for await (const part of body.pipeThrough(new TextDecoderStream() as TransformStream)) {
    const lines = (waiting + part).split("\n\n");
    waiting = lines.pop()!;
    for (const line of lines) {
      const text = line.replace(/^data: /, "");
      if (text === "[DONE]") return { ending: "the answer", said: "" };
      const event = JSON.parse(text) as Told & GenerateAnswer;
      if (event.error !== undefined) {
        requireTyped(event);
        return { ending: `event with ${Number(event.error.code)}`, said: text };
      }
      answers[event.index ?? 0] = event;
      events += 1;
      onEvent?.(events);
    }
  }
  return { ending: "a broken connection", said: "the stream ends without its end" };
}

class UntypedError extends Error {}

function requireTyped(told: Told): void {
  const { message, type, code } = told.error ?? {};
  const isTyped = [message, type].every((one) => typeof one === "string") && code !== undefined;
  if (!isTyped) throw new UntypedError(`Cannot tell what failed: ${JSON.stringify(told)}`);
}
