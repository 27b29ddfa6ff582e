/**
 * The end of a command by a signal.
 *
 * @module
 */
import { EngineError } from "../../errors.ts";

/** A signal came. The process ends with the exit code that says so. */
export class StoppedError extends EngineError {
  readonly code = "stopped";
  readonly exitCode: number;

  constructor(message: string, exitCode: number) {
    super(message);
    this.exitCode = exitCode;
  }
}
