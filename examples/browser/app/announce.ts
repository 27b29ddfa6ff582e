/**
 * Short words for the status line, which screen readers read aloud. Never the tokens of an answer.
 *
 * @module
 */
import { byId, setText } from "./dom.ts";

/** Says it, and takes back what was said before. */
export function announce(text: string): void {
  setText(byId("status"), text);
}
