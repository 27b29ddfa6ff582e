/**
 * What a command of `wisp` is given beside its arguments.
 *
 * @module
 */

import type { Output } from "../observe/logger.ts";
import type { RankProcesses } from "../options/environment.ts";
import type { StartEngine } from "../serve/start_engine.ts";

export interface CommandContext {
  readonly startEngine: StartEngine;
  /** Whether what `startEngine` starts are rank processes, and of whom. Default: none. */
  readonly processes?: RankProcesses;
  readonly stdout: Output;
  readonly stderr: Output;
  /** Where a command reads what its arguments leave out. Default: nowhere. */
  readonly stdin?: Input;
}

/** The part of a stream that a command reads: `process.stdin`, or a list in a test. */
export interface Input extends AsyncIterable<string | Uint8Array> {
  readonly isTTY?: boolean;
  /** Its descriptor, where it is a file of the system. */
  readonly fd?: number;
}
