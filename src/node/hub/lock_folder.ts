/**
 * The states that a lock has had: one numbered file each, of which the newest counts.
 *
 * A number is never used again, as the newest file stays, also when the lock is free. So what a
 * process has seen of a lock cannot come to mean another one: who takes the lock over from state 7
 * has to create state 8, which the file system lets one process do.
 *
 * @module
 */

import { readdirSync, utimesSync } from "node:fs";
import { open, readdir, readFile, rm, stat } from "node:fs/promises";
import { basename, dirname } from "node:path";

/** What a state's file says. */
export interface LockState {
  /** Empty where its creator has not written it yet. */
  readonly text: string;
  /** Milliseconds of the Unix time at which the file was last touched. */
  readonly touchedAt: number;
}

export class LockFolder {
  readonly #path: string;

  /** @param path The states are at `<path>.<number>`. */
  constructor(path: string) {
    this.#path = path;
  }

  /** The number of the newest state; 0 where the lock was never taken. */
  async newest(): Promise<number> {
    return this.#highest(await readdir(dirname(this.#path)));
  }

  /** @returns Whether this call has created the state, which is empty then. */
  async create(state: number): Promise<boolean> {
    try {
      await (await open(this.#at(state), "wx")).close();
      return true;
    } catch (error) {
      if ((error as NodeJS.ErrnoException).code === "EEXIST") return false;
      throw error;
    }
  }

  /** Writes into a state that is there; nothing is created where it is gone. */
  async write(state: number, text: string): Promise<void> {
    try {
      const file = await open(this.#at(state), "r+");
      try {
        await file.writeFile(text);
        await file.truncate(Buffer.byteLength(text));
      } finally {
        await file.close();
      }
    } catch (error) {
      if ((error as NodeJS.ErrnoException).code !== "ENOENT") throw error;
    }
  }

  /** @returns Undefined where a newer state has made it superfluous. */
  async read(state: number): Promise<LockState | undefined> {
    try {
      const { mtimeMs } = await stat(this.#at(state));
      return { text: await readFile(this.#at(state), "utf8"), touchedAt: mtimeMs };
    } catch (error) {
      if ((error as NodeJS.ErrnoException).code === "ENOENT") return undefined;
      throw error;
    }
  }

  async remove(state: number): Promise<void> {
    await rm(this.#at(state), { force: true });
  }

  /** Deletes what came before `state`. */
  async removeBefore(state: number): Promise<void> {
    for (const number of this.#numbers(await readdir(dirname(this.#path)))) {
      if (number < state) await this.remove(number);
    }
  }

  /**
   * Touches a state and says whether it is still the newest. Nothing else happens in this process
   * meanwhile, so that one that was asleep knows before it goes on.
   */
  touch(state: number): boolean {
    try {
      const now = new Date();
      utimesSync(this.#at(state), now, now);
      return this.#highest(readdirSync(dirname(this.#path))) === state;
    } catch (error) {
      // What else may be wrong with the disk is no other holder.
      return (error as NodeJS.ErrnoException).code !== "ENOENT";
    }
  }

  #at(state: number): string {
    return `${this.#path}.${state}`;
  }

  #highest(names: readonly string[]): number {
    return this.#numbers(names).reduce((highest, number) => Math.max(highest, number), 0);
  }

  #numbers(names: readonly string[]): readonly number[] {
    const prefix = `${basename(this.#path)}.`;
    return names
      .filter(
        (name) => name.startsWith(prefix) && /^[1-9]\d{0,14}$/.test(name.slice(prefix.length)),
      )
      .map((name) => Number(name.slice(prefix.length)));
  }
}
