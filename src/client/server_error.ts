/**
 * What a client of a server is told when it gets no answer.
 *
 * @module
 */
import { EngineError } from "../errors.ts";

/** A server refused a request, failed at it, or broke its answer off. */
export class ServerError extends EngineError {
  readonly code = "server_error";
  /** Of the answer's head; undefined where the head was fine, or none came. */
  readonly status: number | undefined;

  constructor(message: string, status?: number, options?: ErrorOptions) {
    super(message, options);
    this.status = status;
  }
}

/** Characters of an answer that is no error body, as far as they are shown. */
const SHOWN = 300;

/** The error that a refusal's body tells of, in whichever of the shapes that servers use. */
export async function refusalOf(response: Response): Promise<ServerError> {
  const text = await response.text().catch(() => "");
  const said = messageIn(text) ?? text.trim().slice(0, SHOWN);
  const why = said === "" ? `the server answers ${response.status}` : said;
  return new ServerError(why, response.status);
}

function messageIn(text: string): string | undefined {
  try {
    return errorMessage(JSON.parse(text));
  } catch {
    // Not JSON: what a proxy in front of the server says, perhaps.
    return undefined;
  }
}

/** The message of an error body or event: `{error: {message}}`, `{error: "word"}` or `{message}`. */
export function errorMessage(body: unknown): string | undefined {
  if (typeof body !== "object" || body === null) return undefined;
  const { error, message } = body as { readonly error?: unknown; readonly message?: unknown };
  if (typeof message === "string") return message;
  return typeof error === "string" ? error : errorMessage(error);
}
