/**
 * Errors on the wire: one table from error code to status, and the documented body shapes.
 *
 * An answer's body has the error twice, for the two kinds of clients: flat, as
 * `{"object":"error","message","type","param","code"}` with the status as its code, and in OpenAI's
 * form in its field `error`, whose `code` is a word or null. A request that `/generate` refuses as
 * invalid answers nested alone, `{"error":{"message","type","param","code"}}` with the status as its
 * code. `param` is the path of the field that is to blame, or null.
 *
 * @module
 */
import {
  CapacityError,
  DisaggregationError,
  EngineError,
  type FieldErrorOptions,
  InvalidRequestError,
  RequestLosesDeviceError,
  UnsupportedError,
} from "../errors.ts";
import { READ_CODINGS } from "./content_coding.ts";

/** What HTTP itself can object to, before or beside the engine. */
export type HttpErrorCode =
  | "malformed_request"
  | "headers_too_large"
  | "timed_out"
  | "malformed_body"
  | "wrong_content_type"
  | "unsupported_coding"
  | "body_too_large"
  | "unauthorized"
  | "forbidden"
  | "not_found"
  | "model_not_found"
  | "method_not_allowed"
  | "upgrade_required"
  | "rate_limited"
  | "unavailable"
  | "worker_failed"
  | "worker_timed_out";

/**
 * A request that fails as HTTP: its path, its method, a body that is not of the right form, or a
 * server that takes no more.
 */
export class HttpError extends EngineError {
  readonly code: HttpErrorCode;
  /** Name of the offending field as the client wrote it, when one is to blame. */
  readonly field: string | undefined;

  constructor(code: HttpErrorCode, message: string, { field, ...options }: FieldErrorOptions = {}) {
    super(message, options);
    this.code = code;
    this.field = field;
  }
}

interface WireError {
  readonly status: number;
  /** Of the flat form. */
  readonly type: string;
  /** What OpenAI calls it, where clients ask for such a word. */
  readonly word?: string;
}

/** The wire's side of each error code; a code that is not here is our fault and answers 500. */
const WIRE_ERRORS: ReadonlyMap<string, WireError> = new Map([
  ["invalid_request", { status: 400, type: "BadRequestError" }],
  [
    "context_length_exceeded",
    { status: 400, type: "BadRequestError", word: "context_length_exceeded" },
  ],
  ["unsupported", { status: 400, type: "BadRequestError" }],
  ["malformed_request", { status: 400, type: "Bad Request" }],
  ["headers_too_large", { status: 431, type: "Request Header Fields Too Large" }],
  ["timed_out", { status: 408, type: "Request Timeout" }],
  ["malformed_body", { status: 400, type: "Bad Request" }],
  ["wrong_content_type", { status: 400, type: "Bad Request" }],
  ["unsupported_coding", { status: 415, type: "UnsupportedMediaTypeError" }],
  ["unauthorized", { status: 401, type: "AuthenticationError", word: "invalid_api_key" }],
  ["forbidden", { status: 403, type: "PermissionDeniedError" }],
  ["not_found", { status: 404, type: "NotFoundError", word: "unknown_url" }],
  ["model_not_found", { status: 404, type: "NotFoundError", word: "model_not_found" }],
  ["upgrade_required", { status: 426, type: "UpgradeRequiredError" }],
  ["method_not_allowed", { status: 405, type: "MethodNotAllowedError" }],
  ["body_too_large", { status: 413, type: "PayloadTooLargeError" }],
  ["capacity_exceeded", { status: 503, type: "503" }],
  [
    "request_loses_device",
    { status: 500, type: "InternalServerError", word: "request_loses_device" },
  ],
  // A group that has lost a rank ends, and is started again.
  ["group_error", { status: 503, type: "503" }],
  ["disaggregation_failed", { status: 500, type: "500", word: "disaggregation_failed" }],
  ["rate_limited", { status: 429, type: "RateLimitError", word: "rate_limit_exceeded" }],
  ["unavailable", { status: 503, type: "503" }],
  ["worker_failed", { status: 502, type: "BadGatewayError" }],
  ["worker_timed_out", { status: 504, type: "GatewayTimeoutError" }],
]);

/** The client left before its answer; only logs show this status. */
const CLIENT_LEFT: WireError = { status: 499, type: "ClientClosedRequest" };

const INTERNAL: WireError = { status: 500, type: "InternalServerError" };

function wireError(error: unknown): WireError {
  if (error instanceof EngineError) return WIRE_ERRORS.get(error.code) ?? INTERNAL;
  if (error instanceof DOMException && error.name === "AbortError") return CLIENT_LEFT;
  return INTERNAL;
}

/** HTTP status of whatever was thrown: 500 for everything that was not meant to be. */
export function errorStatus(error: unknown): number {
  return wireError(error).status;
}

/** Only messages written for clients leave the process; those of unexpected errors do not. */
function publicMessage(error: unknown): string {
  const isFull = error instanceof CapacityError && error.resource === "places in the request queue";
  // The words that clients wait for before they try again.
  if (isFull) return "The request queue is full.";
  if (error instanceof EngineError) return error.message;
  return wireError(error) === CLIENT_LEFT ? "The client left" : "Internal server error";
}

function blamedField(error: unknown): string | null {
  const isOfRequest =
    error instanceof InvalidRequestError ||
    error instanceof UnsupportedError ||
    error instanceof HttpError;
  return isOfRequest ? (error.field ?? null) : null;
}

/** OpenAI's, which tells whose fault it is. */
function openaiType(status: number): string {
  return status >= 500 ? "server_error" : "invalid_request_error";
}

export interface FlatError {
  readonly object: "error";
  readonly message: string;
  readonly type: string;
  readonly param: string | null;
  /** The status. */
  readonly code: number;
}

/** Also what the event that ends a failed stream below `/v1` has in its field `error`. */
export function flatError(error: unknown): FlatError {
  const { status, type } = wireError(error);
  const param = blamedField(error);
  return { object: "error", message: publicMessage(error), type, param, code: status };
}

export interface ErrorBody extends FlatError {
  readonly error: {
    readonly message: string;
    readonly type: string;
    readonly param: string | null;
    readonly code: string | null;
  };
}

/** Both forms in one body. */
export function errorBody(error: unknown): ErrorBody {
  const { status, word = null } = wireError(error);
  const flat = flatError(error);
  const { message, param } = flat;
  return { ...flat, error: { message, type: openaiType(status), param, code: word } };
}

export interface GenerateErrorBody {
  readonly error: {
    readonly message: string;
    readonly type: string;
    readonly param: string | null;
    /** The status. */
    readonly code: number;
  };
}

/** Also the event that ends a `/generate` stream which failed. */
export function generateErrorBody(error: unknown): GenerateErrorBody {
  const { message, param, code } = flatError(error);
  return { error: { message, type: openaiType(code), param, code } };
}

export function errorResponse(error: unknown, headers: HeadersInit = {}): Response {
  const answer = Response.json(errorBody(error), { status: errorStatus(error), headers });
  const isCoding = error instanceof HttpError && error.code === "unsupported_coding";
  if (isCoding) answer.headers.set("accept-encoding", READ_CODINGS);
  // Clients that try again by themselves look for it.
  if (error instanceof RequestLosesDeviceError) answer.headers.set("x-should-retry", "false");
  // Routers lay the blame there.
  if (error instanceof DisaggregationError) answer.headers.set(FAILED_SIDE_HEADER, error.side);
  // What is full now has room again when a request ends, which no server knows before.
  if (error instanceof CapacityError) answer.headers.set("retry-after", "1");
  return answer;
}

/** Says which of two servers that share a request has failed: `prefill` or `decode`. */
export const FAILED_SIDE_HEADER = "x-wisp-failed-side";

/** Nested alone for a well-formed request that is refused. */
export function generateErrorResponse(error: unknown): Response {
  const refused = error instanceof InvalidRequestError || error instanceof UnsupportedError;
  if (!refused) return errorResponse(error);
  return Response.json(generateErrorBody(error), { status: errorStatus(error) });
}
