/**
 * Jobs of many values on their way to another thread. A message is copied in one go, a value at a time;
 * JSON is written in slices, and a text is copied as fast as its bytes.
 *
 * @module
 */
import { jsonPieces } from "../../http/json_response.ts";
import { turns } from "../../turns.ts";
import type { TextJob } from "./text_jobs.ts";

/** UTF-16 units of a piece, about. */
const PIECE_UNITS = 2 ** 16;

/**
 * The pieces of a job's JSON. Other work of the thread has its turns in between.
 *
 * @param isWanted Asked after each turn.
 * @returns What there is when it is wanted no more.
 */
export async function packed(job: TextJob, isWanted: () => boolean): Promise<readonly string[]> {
  const pieces: string[] = [];
  let parts: string[] = [];
  let units = 0;
  for (const part of jsonPieces(job)) {
    parts.push(part);
    units += part.length;
    if (units >= PIECE_UNITS) {
      pieces.push(parts.join(""));
      parts = [];
      units = 0;
    }
    if (!turns.isDue) continue;
    await turns.take();
    if (!isWanted()) return pieces;
  }
  pieces.push(parts.join(""));
  return pieces;
}

export function unpacked(pieces: readonly string[]): TextJob {
  return JSON.parse(pieces.join("")) as TextJob;
}
