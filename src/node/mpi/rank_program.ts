/**
 * Where the program of a rank process is.
 *
 * @module
 */
import { existsSync } from "node:fs";
import { fileURLToPath } from "node:url";
import { UnsupportedError } from "../../errors.ts";

/** Seen from the package's entries and from the files they share. */
const PLACES = ["./rank_process.js", "../rank_process.js"];

/** @throws {UnsupportedError} where the package runs from its TypeScript source. */
export function rankProgram(): string {
  const paths = PLACES.map((place) => fileURLToPath(new URL(place, import.meta.url)));
  const path = paths.find((one) => existsSync(one));
  if (path !== undefined) return path;
  throw new UnsupportedError("ranks over MPI", "their program is not built; npm run build does it");
}
