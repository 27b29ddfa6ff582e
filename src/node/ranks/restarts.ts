/**
 * How often, and after what wait, a group that has ended is started again.
 *
 * @module
 */
import { setTimeout as sleep } from "node:timers/promises";
import { EXIT, LaunchError } from "../mpi/launch_error.ts";
import type { Logger } from "../observe/logger.ts";

/** Seconds before each start in a row. */
const WAITS: readonly number[] = [0, 1, 2, 4, 8];
/** Milliseconds after which a group that runs is as good as a new one. */
const STEADY = 60_000;

export class Restarts {
  readonly #log: Logger;
  readonly #waits: readonly number[];
  #isOn: boolean;
  #tries = 0;
  #runsSince: number | undefined;

  /** @param waits Seconds before each start in a row. */
  constructor(isOn: boolean, log: Logger, waits = WAITS) {
    this.#isOn = isOn;
    this.#log = log;
    this.#waits = waits;
  }

  /** The ranks are loaded. */
  runs(): void {
    this.#runsSince = performance.now();
  }

  /** No group is started any more. */
  end(): void {
    this.#isOn = false;
  }

  /**
   * Waits before the next start.
   *
   * @param signal Ends the wait, and rejects with its reason.
   * @throws the reason why the group has ended, where none is to follow.
   */
  async next(reason: unknown, signal: AbortSignal): Promise<void> {
    const { exitCode } = reason instanceof LaunchError ? reason : { exitCode: EXIT.failed };
    if (this.#runsSince !== undefined && performance.now() - this.#runsSince > STEADY) {
      this.#tries = 0;
    }
    this.#runsSince = undefined;
    const seconds = this.#waits[this.#tries];
    // Options that differ, or a port that is taken, are so the next time.
    if (!this.#isOn || exitCode === EXIT.failed || seconds === undefined) throw reason;
    this.#tries += 1;
    const { message } = reason as Error;
    const number = `start ${this.#tries} of ${this.#waits.length}`;
    this.#log.event(
      "warning",
      `The group has ended (${message}): its ranks are started again in ${seconds} s, ${number}`,
      { event: "group_ended", reason: message, seconds, start: this.#tries },
    );
    await sleep(1000 * seconds, undefined, { signal }).catch(() => {
      throw signal.reason;
    });
    if (!this.#isOn) throw reason;
  }
}
