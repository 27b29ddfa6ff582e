/**
 * Request body -> JSON value, with a limit on its size, also on that of what a compressed one holds,
 * and on the memory that the bodies of all requests take.
 *
 * @module
 */
import { othersTurn, turns } from "../turns.ts";
import type { BodyShare } from "./body_memory.ts";
import { decoded, formatOf, READ_CODINGS } from "./content_coding.ts";
import { HttpError } from "./error_response.ts";
import { JsonError, parseJsonPieces } from "./json_pieces.ts";

export interface BodyLimits {
  /** A larger body is refused as soon as it is known to be larger; the rest is not read. */
  readonly maxBytes: number;
  /**
   * Where its memory is counted: its bytes twice while they come, as they are put together, then
   * once, and what its values take; those alone once it is read, until the caller ends the share.
   * Default: it is not.
   */
  readonly share?: BodyShare;
}

/**
 * Reads the whole body as one JSON value. Large ones are parsed in pieces, one body at a time.
 *
 * @param whenEmpty Stands for a body of no bytes. Default: there is no such value.
 * @throws {HttpError} `wrong_content_type` when a header says that it is something else,
 * `unsupported_coding` when it is compressed in a way that is not read, `body_too_large`, or
 * `malformed_body` when it is not JSON in UTF-8.
 * @throws {CapacityError} when bodies of other requests leave no memory for it.
 */
export async function readJsonBody(
  request: Request,
  limits: BodyLimits,
  whenEmpty?: unknown,
): Promise<unknown> {
  // Also a page of another origin can send what it calls plain text without asking.
  if (request.headers.has("content-type")) requireJsonContentType(request);
  const format = compressionOf(request);
  const sent = await readBodyBytes(request, limits);
  // Nothing is nothing, however it is said to be compressed.
  const isPlain = format === undefined || sent.length === 0;
  const bytes = isPlain ? sent : await decode(sent, format, { ...limits, signal: request.signal });
  if (bytes.length === 0 && whenEmpty !== undefined) return whenEmpty;
  if (bytes.length === 0) throw malformed("it is empty");
  return parseJsonBytes(bytes, request.signal, limits.share);
}

/**
 * The JSON value of a body that is here. Large ones are parsed in pieces, one body at a time.
 *
 * @throws {HttpError} `malformed_body` when it is not JSON in UTF-8.
 * @throws {CapacityError} when the share has no memory for its values.
 */
export async function parseJsonBytes(
  bytes: Uint8Array,
  signal: AbortSignal,
  share: BodyShare | undefined,
): Promise<unknown> {
  let memory = 0;
  const pieces = parseJsonPieces(bytes, (needed) => {
    memory = needed;
    share?.hold(bytes.length + memory);
  });
  const next = () => {
    if (signal.aborted) throw clientLeft();
    try {
      return pieces.next();
    } catch (cause) {
      throw cause instanceof JsonError ? malformed(cause.problem, cause) : cause;
    }
  };
  let piece = next();
  if (!piece.done) {
    const rest = async () => {
      for (; !piece.done; piece = next()) await othersTurn();
    };
    await (share === undefined ? rest() : share.inTurn(rest));
  }
  share?.hold(memory);
  return piece.value;
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

/** Bytes of memory for each that is read: the pieces, and what they are put together to. */
const WHILE_READ = 2;

/**
 * Bytes of a body that is asked for whole: counted once it is here, as a connection takes more by itself.
 * `request.body` would make of it streams that live as long as the request, 8 KiB in Node.
 */
const WHOLE_BYTES = 16 * 1024;

/**
 * Reads the body as it is sent, compressed or not.
 *
 * @throws {HttpError} `body_too_large`, or `malformed_body` when it ends early.
 * @throws {CapacityError} when bodies of other requests leave no memory for it.
 */
export async function readBodyBytes(request: Request, limits: BodyLimits): Promise<Uint8Array> {
  const { maxBytes, share } = limits;
  const declared = Number(request.headers.get("content-length") ?? 0);
  if (declared > maxBytes) throw tooLarge(maxBytes);
  // Counted are the bytes that come: a client that only says so would keep others out.
  if (declared > 0) share?.check(WHILE_READ * declared);
  const hold = (length: number) => share?.hold(WHILE_READ * length);
  const onFailure = (cause: unknown): never => {
    if (request.signal.aborted) throw clientLeft();
    throw malformed("it ended early", cause);
  };
  // No more than declared comes: the platform's HTTP sees to that.
  if (declared > 0 && declared <= WHOLE_BYTES) {
    return request.arrayBuffer().then((bytes) => {
      hold(bytes.byteLength);
      return new Uint8Array(bytes);
    }, onFailure);
  }
  if (request.body === null) return new Uint8Array(0);
  return readAll(request.body, { maxBytes, hold, signal: request.signal }, onFailure);
}

function clientLeft(): DOMException {
  return new DOMException("The client left", "AbortError");
}

/** Stops at the limit, however much more a few bytes stand for. */
function decode(
  bytes: Uint8Array,
  format: CompressionFormat,
  { maxBytes, share, signal }: BodyLimits & Pick<ReadLimits, "signal">,
): Promise<Uint8Array> {
  const hold = (length: number) => share?.hold(bytes.length + WHILE_READ * length);
  return readAll(decoded(bytes, format), { maxBytes, hold, signal }, (cause) => {
    throw malformed(`it is not ${format}, as its Content-Encoding says`, cause);
  });
}

interface ReadLimits {
  readonly maxBytes: number;
  /** Told how many bytes are here; it throws when there is no room for them. */
  readonly hold: (length: number) => void;
  /** Of the client. */
  readonly signal: AbortSignal;
}

/** @param onFailure Throws what is to be said of a stream that fails. */
async function readAll(
  stream: ReadableStream<Uint8Array>,
  { maxBytes, hold, signal }: ReadLimits,
  onFailure: (cause: unknown) => never,
): Promise<Uint8Array> {
  const reader = stream.getReader();
  const pieces: Uint8Array[] = [];
  let length = 0;
  for (;;) {
    const { done, value } = await reader.read().catch(onFailure);
    if (done) break;
    length += value.length;
    try {
      if (length > maxBytes) throw tooLarge(maxBytes);
      hold(length);
    } catch (error) {
      // Not awaited: how the sender takes it does not change the answer.
      reader.cancel().catch(() => {});
      throw error;
    }
    pieces.push(value);
    // Pieces of a byte come thousands at once, each in a turn of promises and not of the event loop.
    if (turns.isDue) await othersTurn();
  }
  return concatenate(pieces, length, signal);
}

/** Bytes that are copied before others have their turn: a millisecond or two, in memory not used yet. */
const COPIED_AT_ONCE = 2 ** 20;

async function concatenate(
  pieces: readonly Uint8Array[],
  length: number,
  signal: AbortSignal,
): Promise<Uint8Array> {
  if (pieces.length === 1) return pieces[0]!;
  const bytes = new Uint8Array(length);
  let offset = 0;
  let pauseAt = COPIED_AT_ONCE;
  for (const piece of pieces) {
    bytes.set(piece, offset);
    offset += piece.length;
    if (offset < pauseAt) continue;
    pauseAt = offset + COPIED_AT_ONCE;
    await othersTurn();
    if (signal.aborted) throw clientLeft();
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
