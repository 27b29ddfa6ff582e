/**
 * A watch's answer as lines, each of which is one event.
 *
 * @module
 */
import type { UpstreamBody } from "../worker/upstream.ts";
import { MalformedError } from "./pod.ts";

/** Bytes of an event; a cluster keeps no object of 2 MiB. */
export const MAX_EVENT_BYTES = 4 * 2 ** 20;

const NEW_LINE = 10;

/**
 * Lines that are whole: what comes behind the last line break is left out.
 *
 * @throws {MalformedError} for a line that is too long.
 * @throws {HttpError} `worker_failed` when the cluster breaks off.
 */
export async function* eventLines(body: UpstreamBody): AsyncGenerator<string> {
  let parts: Uint8Array[] = [];
  let length = 0;
  for (;;) {
    const bytes = await body.read();
    if (bytes === undefined) return;
    let from = 0;
    for (;;) {
      const end = bytes.indexOf(NEW_LINE, from);
      const part = bytes.subarray(from, end < 0 ? undefined : end);
      length += part.length;
      if (length > MAX_EVENT_BYTES) {
        throw new MalformedError(`an event has more than ${MAX_EVENT_BYTES} bytes`);
      }
      if (part.length > 0) parts.push(part);
      if (end < 0) break;
      if (length > 0) yield textOf(parts);
      parts = [];
      length = 0;
      from = end + 1;
    }
  }
}

function textOf(parts: readonly Uint8Array[]): string {
  const decoder = new TextDecoder();
  return parts.map((part) => decoder.decode(part, { stream: true })).join("") + decoder.decode();
}
