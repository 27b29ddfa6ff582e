/**
 * A worker's answer on its way to the client: its bytes as they are. Where the worker breaks off, a
 * stream of events ends with one that says so, and every other answer breaks off too.
 *
 * @module
 */
import { flatError, generateErrorBody } from "../../http/error_response.ts";
import { answerHeaders } from "../worker/headers.ts";
import type { UpstreamAnswer } from "../worker/upstream.ts";

/** Answers of these have no bodies. */
const BODILESS: readonly number[] = [204, 205, 304];

const DONE = "data: [DONE]\n\n";

export interface RelayOptions {
  /** Breaks the client's connection off, where there is one; returns whether. */
  readonly cut: () => boolean;
  /** The first bytes of the body, which are here; undefined where there are none. */
  readonly first: Uint8Array | undefined;
  /** Whether the answer is one of `/generate`, whose events of errors have a form of their own. */
  readonly isGenerate: boolean;
  /** Whether its events have names; such a stream breaks off as every other answer does. */
  readonly isNamed: boolean;
  /** Called once when the answer has ended. @param error Why it broke off; undefined when it did not. */
  readonly ended: (error?: unknown) => void;
  /** Called in place of `ended` when the client leaves. */
  readonly left: () => void;
}

export function relay(answer: UpstreamAnswer, options: RelayOptions): Response {
  const { status } = answer;
  const headers = answerHeaders(answer.headers);
  if (options.first === undefined || BODILESS.includes(status)) {
    answer.body.cancel();
    options.ended();
    return new Response(null, { status, headers });
  }
  const isEvents = headers.get("content-type")?.startsWith("text/event-stream") ?? false;
  const body = bodyOf(answer, options, isEvents && !options.isNamed);
  return new Response(body, { status, headers });
}

function bodyOf(
  { body }: UpstreamAnswer,
  { first, isGenerate, cut, ended, left }: RelayOptions,
  isEvents: boolean,
): ReadableStream<Uint8Array> {
  let last = first!;
  let isFirst = true;
  return new ReadableStream<Uint8Array>(
    {
      async pull(controller) {
        try {
          const bytes = isFirst ? first : await body.read();
          isFirst = false;
          if (bytes !== undefined) {
            last = bytes;
            controller.enqueue(bytes);
            return;
          }
          ended();
          controller.close();
        } catch (error) {
          ended(error);
          // Within an event nothing can be said, and behind the last one there is nothing to say. What
          // has cut the connection cancels this stream.
          if (!isEvents || !endsWith(last, "\n\n"))
            return cut() ? undefined : controller.error(error);
          if (!endsWith(last, DONE)) controller.enqueue(failure(error, isGenerate));
          controller.close();
        }
      },
      cancel() {
        body.cancel();
        left();
      },
    },
    // What is ahead of the client waits at the worker.
    { highWaterMark: 0 },
  );
}

function failure(error: unknown, isGenerate: boolean): Uint8Array {
  const event = isGenerate ? generateErrorBody(error) : { error: flatError(error) };
  return new TextEncoder().encode(`data: ${JSON.stringify(event)}\n\n${DONE}`);
}

function endsWith(bytes: Uint8Array, text: string): boolean {
  const start = bytes.length - text.length;
  if (start < 0) return false;
  for (let i = 0; i < text.length; i++) {
    if (bytes[start + i] !== text.charCodeAt(i)) return false;
  }
  return true;
}
