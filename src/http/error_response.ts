/**
 * Errors on the wire: one table from error code to status, and the two documented body shapes.
 *
 * Flat, `{"object":"error","message","type","param","code"}`, is the shape of every path; a request
 * that `/generate` refuses as invalid answers nested, `{"error":{"message"}}`.
 *
 * @module
 */
import { CapacityError, EngineError } from "../errors.ts";

/** What HTTP itself can object to, before or beside the engine. */
export type HttpErrorCode =
  | "malformed_request"
  | "headers_too_large"
  | "timed_out"
  | "malformed_body"
  | "wrong_content_type"
  | "body_too_large"
  | "not_found"
  | "method_not_allowed"
  | "unavailable";

/**
 * A request that fails as HTTP: its path, its method, a body that is not of the right form, or a
 * server that takes no more.
 */
export class HttpError extends EngineError {
  readonly code: HttpErrorCode;

  constructor(code: HttpErrorCode, message: string, options?: ErrorOptions) {
    super(message, options);
    this.code = code;
  }
}

interface WireError {
  readonly status: number;
  readonly type: string;
}

/** Status and `type` for each error code; a code that is not here is our fault and answers 500. */
const WIRE_ERRORS: ReadonlyMap<string, WireError> = new Map([
  ["invalid_request", { status: 400, type: "BadRequestError" }],
  ["unsupported", { status: 400, type: "BadRequestError" }],
  ["malformed_request", { status: 400, type: "Bad Request" }],
  ["headers_too_large", { status: 431, type: "Request Header Fields Too Large" }],
  ["timed_out", { status: 408, type: "Request Timeout" }],
  ["malformed_body", { status: 400, type: "Bad Request" }],
  ["wrong_content_type", { status: 400, type: "Bad Request" }],
  ["not_found", { status: 404, type: "NotFoundError" }],
  ["method_not_allowed", { status: 405, type: "MethodNotAllowedError" }],
  ["body_too_large", { status: 413, type: "PayloadTooLargeError" }],
  ["capacity_exceeded", { status: 503, type: "503" }],
  ["unavailable", { status: 503, type: "503" }],
]);

/** The client left before its answer; nobody reads this status, but logs do. */
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
  // The words that clients wait for before they try again.
  if (error instanceof CapacityError) return "The request queue is full.";
  if (error instanceof EngineError) return error.message;
  return wireError(error) === CLIENT_LEFT ? "The client left" : "Internal server error";
}

export interface FlatErrorBody {
  readonly object: "error";
  readonly message: string;
  readonly type: string;
  readonly param: null;
  readonly code: number;
}

export function flatErrorBody(error: unknown): FlatErrorBody {
  const { status, type } = wireError(error);
  return { object: "error", message: publicMessage(error), type, param: null, code: status };
}

export interface NestedErrorBody {
  readonly error: { readonly message: string };
}

/** Also the event that ends a `/generate` stream which failed. */
export function nestedErrorBody(error: unknown): NestedErrorBody {
  return { error: { message: publicMessage(error) } };
}

export function flatErrorResponse(error: unknown, headers: HeadersInit = {}): Response {
  return Response.json(flatErrorBody(error), { status: errorStatus(error), headers });
}

/** Nested for a well-formed request that is refused, flat for everything else. */
export function generateErrorResponse(error: unknown): Response {
  const refused =
    error instanceof EngineError &&
    (error.code === "invalid_request" || error.code === "unsupported");
  if (!refused) return flatErrorResponse(error);
  return Response.json(nestedErrorBody(error), { status: errorStatus(error) });
}
