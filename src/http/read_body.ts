/**
 * Request body -> JSON value, with a limit on its size.
 *
 * @module
 */
import { HttpError } from "./error_response.ts";

/**
 * Reads the whole body as one JSON value.
 *
 * @param maxBytes A larger body is refused as soon as it is known to be larger; the rest is not read.
 * @param whenEmpty Stands for a body of no bytes. Default: there is no such value.
 * @throws {HttpError} `wrong_content_type` when a header says that it is something else,
 * `body_too_large`, or `malformed_body` when it is not JSON in UTF-8.
 */
export async function readJsonBody(
  request: Request,
  maxBytes: number,
  whenEmpty?: unknown,
): Promise<unknown> {
  // Also a page of another origin can send what it calls plain text without asking.
  if (request.headers.has("content-type")) requireJsonContentType(request);
  const bytes = await readBytes(request, maxBytes);
  if (bytes.length === 0 && whenEmpty !== undefined) return whenEmpty;
  if (bytes.length === 0) throw malformed("it is empty");
  let text: string;
  try {
    text = new TextDecoder("utf-8", { fatal: true }).decode(bytes);
  } catch (cause) {
    throw malformed("it is not UTF-8", cause);
  }
  try {
    return JSON.parse(text);
  } catch (cause) {
    throw malformed(`it is not JSON: ${(cause as Error).message}`, cause);
  }
}

/** @throws {HttpError} `wrong_content_type` when the header is absent or names anything but JSON. */
export function requireJsonContentType(request: Request): void {
  const header = request.headers.get("content-type") ?? "";
  const mediaType = header.split(";", 1)[0]!.trim().toLowerCase();
  if (mediaType === "application/json") return;
  const found = header === "" ? "it is absent" : `it is ${JSON.stringify(header)}`;
  throw new HttpError(
    "wrong_content_type",
    `Cannot accept the Content-Type header: ${found}, not "application/json"`,
  );
}

async function readBytes(request: Request, maxBytes: number): Promise<Uint8Array> {
  if (Number(request.headers.get("content-length") ?? 0) > maxBytes) throw tooLarge(maxBytes);
  if (request.body === null) return new Uint8Array(0);
  const reader = request.body.getReader();
  const pieces: Uint8Array[] = [];
  let length = 0;
  for (;;) {
    const { done, value } = await reader.read().catch((cause) => {
      if (request.signal.aborted) throw new DOMException("The client left", "AbortError");
      throw malformed("it ended early", cause);
    });
    if (done) break;
    length += value.length;
    if (length > maxBytes) {
      // Not awaited: how the sender takes it does not change the answer.
      reader.cancel().catch(() => {});
      throw tooLarge(maxBytes);
    }
    pieces.push(value);
  }
  return concatenate(pieces, length);
}

function concatenate(pieces: readonly Uint8Array[], length: number): Uint8Array {
  if (pieces.length === 1) return pieces[0]!;
  const bytes = new Uint8Array(length);
  let offset = 0;
  for (const piece of pieces) {
    bytes.set(piece, offset);
    offset += piece.length;
  }
  return bytes;
}

function malformed(problem: string, cause?: unknown): HttpError {
  return new HttpError("malformed_body", `Cannot read the request body: ${problem}`, { cause });
}

function tooLarge(maxBytes: number): HttpError {
  return new HttpError(
    "body_too_large",
    `Cannot read the request body: it is larger than ${maxBytes} bytes`,
  );
}
