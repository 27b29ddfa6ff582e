/**
 * How much text a job has, before it is sent anywhere.
 *
 * @module
 */
import type { TextJob } from "./text_jobs.ts";

/** From here on a job is as large as any: counting goes no further. */
export const MAX_SIZE = 2 ** 20;
/** What a value costs beside its characters, in characters. */
const VALUE = 16;

/** Characters of a job's text, at most `MAX_SIZE` or a little more. */
export function textSize(job: TextJob): number {
  switch (job.type) {
    case "prompt":
      return valueSize(job.request);
    case "encode":
      return job.text.length;
    case "decode":
      return Math.min(VALUE * job.tokens.length, MAX_SIZE);
    default:
      return job satisfies never;
  }
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
      for (const key in value) {
        size += key.length;
        rest.push(value[key as keyof typeof value]);
        if (VALUE * rest.length > MAX_SIZE) return MAX_SIZE;
      }
    }
  }
  return size;
}
