/**
 * What a visitor of a server's page can do about its errors.
 *
 * @module
 */
import { ServerError } from "../../../src/client/server_error.ts";
import type { Explanation } from "../model/explain_error.ts";

const ADVICE: Readonly<Record<number, string>> = {
  401: "Reload the page to give another key.",
  403: "The server's option --allowed-origins says which pages may use it; it must name this one.",
  503: "The server is busy or stops. Ask again in a moment.",
};

const NEW_CHAT = "Begin a new chat, or ask for fewer tokens.";

export function explainServerError(error: unknown): Explanation {
  const { message } = error instanceof Error ? error : new Error(String(error));
  const status = error instanceof ServerError ? error.status : undefined;
  const isTooLong = status === 400 && /context/i.test(message);
  const isAway = status === undefined && message.startsWith("Cannot reach the server");
  const advice = isTooLong
    ? NEW_CHAT
    : isAway
      ? "Look whether it runs, then ask again."
      : ADVICE[status ?? 0];
  return advice === undefined ? { text: message } : { text: message, advice };
}
