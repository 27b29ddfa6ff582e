/**
 * Errors in Ollama's shape: `{"error": MESSAGE}`.
 *
 * @module
 */
import { errorStatus, flatError } from "../../http/error_response.ts";

/** `{"error": MESSAGE}`. */
export function ollamaErrorResponse(error: unknown): Response {
  return Response.json({ error: flatError(error).message }, { status: errorStatus(error) });
}
