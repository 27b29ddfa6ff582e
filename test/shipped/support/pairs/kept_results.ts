/**
 * Results of a campaign in a file, which goes on where it was stopped. Several runs may add to one file
 * side by side.
 *
 * @module
 */
import { existsSync, readFileSync, renameSync, writeFileSync } from "node:fs";

export function keptResults<T>(file: string): Readonly<Record<string, T>> {
  return existsSync(file) ? JSON.parse(readFileSync(file, "utf8")) : {};
}

/** Adds a result under a name to what is in the file by now. */
export function keepResult(file: string, name: string, result: unknown): void {
  const all = { ...keptResults(file), [name]: result };
  const written = `${file}.${process.pid}`;
  writeFileSync(written, `${JSON.stringify(all, null, 2)}\n`);
  renameSync(written, file);
}
