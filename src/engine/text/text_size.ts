/**
 * How much text a job has, before it is sent anywhere.
 *
 * @module
 */
import type { TextJob } from "./text_jobs.ts";

/** Larger jobs are all one size: counting goes no further. */
export const MAX_SIZE = 2 ** 20;
/** What a value costs beside its characters, in characters. */
const VALUE = 16;

/** Characters of a job's text, at most `MAX_SIZE` or a little more. */
export function textSize(job: TextJob): number {
  switch (job.type) {
    case "prompt":
      return valueSize([job.request, job.images]);
    case "encode":
      return job.text.length;
    case "decode":
      return Math.min(VALUE * job.tokens.length, MAX_SIZE);
    default:
      return job satisfies never;
  }
}

/** Values of a job beyond which copying it to another thread in one go takes milliseconds. */
const MANY_VALUES = 4096;

/** Whether a job has so many values that it is to be packed. */
export function hasManyValues(job: TextJob): boolean {
  let values = 0;
  const rest: unknown[] = [job];
  while (rest.length > 0) {
    const value = rest.pop();
    if (typeof value !== "object" || value === null) continue;
    const inside = Array.isArray(value) ? value : Object.values(value);
    values += inside.length;
    if (values > MANY_VALUES) return true;
    for (const one of inside) rest.push(one);
  }
  return false;
}

/** Walks plain data, however deep it nests, until it is known to be large. */
function valueSize(root: unknown): number {
  let size = 0;
  const rest: unknown[] = [root];
  while (rest.length > 0 && size < MAX_SIZE) {
    const value = rest.pop();
    size += VALUE;
    if (typeof value === "string") size += value.length;
    else if (typeof value === "object" && value !== null) {
      const inside = Array.isArray(value) ? value : Object.values(value);
      if (VALUE * (rest.length + inside.length) > MAX_SIZE) return MAX_SIZE;
      for (const one of inside) rest.push(one);
      if (inside !== value) for (const key of Object.keys(value)) size += key.length;
    }
  }
  return size;
}
