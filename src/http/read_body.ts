/**
 * Request body -> JSON value, with a limit on its size, also on that of what a compressed one holds.
 *
 * @module
 */
import { decoded, formatOf, READ_CODINGS } from "./content_coding.ts";
import { HttpError } from "./error_response.ts";
import { JsonTextError } from "./json_part.ts";
import { parseJson } from "./parse_json.ts";

/**
 * Reads the whole body as one JSON value.
 *
 * @param maxBytes A larger body is refused as soon as it is known to be larger; the rest is not read.
 * @param whenEmpty Stands for a body of no bytes. Default: there is no such value.
 * @throws {HttpError} `wrong_content_type` when a header says that it is something else,
 * `unsupported_coding` when it is compressed in a way that is not read, `body_too_large`, or
 * `malformed_body` when it is not JSON in UTF-8.
 */
export async function readJsonBody(
  request: Request,
  maxBytes: number,
  whenEmpty?: unknown,
): Promise<unknown> {
  // Also a page of another origin can send what it calls plain text without asking.
  if (request.headers.has("content-type")) requireJsonContentType(request);
  const format = compressionOf(request);
  const sent = await readBytes(request, maxBytes);
  // Nothing is nothing, however it is said to be compressed.
  const isPlain = format === undefined || sent.length === 0;
  const bytes = isPlain ? sent : await decode(sent, format, maxBytes);
  if (bytes.length === 0 && whenEmpty !== undefined) return whenEmpty;
  if (bytes.length === 0) throw malformed("it is empty");
  return parseJson(bytes, request.signal).catch((cause: unknown) => {
    if (cause instanceof JsonTextError) throw malformed(cause.message, cause.cause);
    throw request.signal.aborted ? clientLeft() : cause;
  });
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

/** How the body is compressed; undefined where it is not. */
function compressionOf(request: Request): CompressionFormat | undefined {
  const header = request.headers.get("content-encoding") ?? "";
  if (header === "" || header.trim().toLowerCase() === "identity") return undefined;
  const format = formatOf(header);
  if (format !== undefined) return format;
  const found = `its Content-Encoding is ${JSON.stringify(header)}`;
  throw new HttpError(
    "unsupported_coding",
    `Cannot read the request body: ${found}, and only ${READ_CODINGS} are read`,
  );
}

async function readBytes(request: Request, maxBytes: number): Promise<Uint8Array> {
  if (Number(request.headers.get("content-length") ?? 0) > maxBytes) throw tooLarge(maxBytes);
  if (request.body === null) return new Uint8Array(0);
  return readAll(request.body, maxBytes, (cause) => {
    if (request.signal.aborted) throw clientLeft();
    throw malformed("it ended early", cause);
  });
}

/** Stops at the limit, however much more a few bytes stand for. */
function decode(
  bytes: Uint8Array,
  format: CompressionFormat,
  maxBytes: number,
): Promise<Uint8Array> {
  return readAll(decoded(bytes, format), maxBytes, (cause) => {
    throw malformed(`it is not ${format}, as its Content-Encoding says`, cause);
  });
}

/** @param onFailure Throws what is to be said of a stream that fails. */
async function readAll(
  stream: ReadableStream<Uint8Array>,
  maxBytes: number,
  onFailure: (cause: unknown) => never,
): Promise<Uint8Array> {
  const reader = stream.getReader();
  const pieces: Uint8Array[] = [];
  let length = 0;
  for (;;) {
    const { done, value } = await reader.read().catch(onFailure);
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

function clientLeft(): DOMException {
  return new DOMException("The client left", "AbortError");
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
