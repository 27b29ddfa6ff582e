/**
 * Why a group of ranks does not start, or has ended.
 *
 * @module
 */
import { GroupError } from "../../errors.ts";

/** Exit codes of a launcher, beside 0 for a group that has done its work. */
export const EXIT = {
  /** The group could not be started: options that differ, a port in use. */
  failed: 1,
  /** A rank or a node was lost, or a rank has failed. */
  lost: 3,
  /** Not all had come when `--dist-timeout` was over. */
  timeout: 4,
} as const;

export type ExitCode = (typeof EXIT)[keyof typeof EXIT];

/** The process ends with the exit code. */
export class LaunchError extends GroupError {
  readonly exitCode: ExitCode;

  constructor(message: string, exitCode: ExitCode, options?: ErrorOptions) {
    super(message, options);
    this.exitCode = exitCode;
  }
}
