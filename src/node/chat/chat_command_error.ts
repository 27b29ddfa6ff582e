/**
 * What is wrong with a command of a chat.
 *
 * @module
 */
import { EngineError } from "../../errors.ts";

/** A command of a chat that cannot be carried out. */
export class ChatCommandError extends EngineError {
  readonly code = "invalid_command";
}
