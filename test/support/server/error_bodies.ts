/**
 * The error bodies that answers are compared with.
 *
 * @module
 */

export interface ExpectedError {
  /** A text, or a matcher for one. */
  readonly message: unknown;
  /** Of the flat form. */
  readonly type: string;
  readonly status: number;
  readonly param?: string | null;
  /** The `code` of OpenAI's form. */
  readonly word?: string | null;
}

/** The flat form with OpenAI's in its field `error`. */
export function bothForms({
  message,
  type,
  status,
  param = null,
  word = null,
}: ExpectedError): object {
  const openaiType = status >= 500 ? "server_error" : "invalid_request_error";
  const error = { message, type: openaiType, param, code: word };
  return { object: "error", message, type, param, code: status, error };
}

/** What `/generate` says of a request that it refuses, and of an error inside a stream. */
export function generateForm({
  message,
  status = 400,
  param = null,
}: Omit<Partial<ExpectedError>, "type">): object {
  const type = status >= 500 ? "server_error" : "invalid_request_error";
  return { error: { message, type, param, code: status } };
}
