/**
 * What a chat template may be, before it is parsed.
 *
 * @module
 */

import { CheckpointError } from "../../errors.ts";

/** UTF-16 units; the longest published templates have under 50,000. */
export const MAX_TEMPLATE = 2 ** 18;

/** White space in one run: a pattern of the library takes time that grows with the square of it. */
export const MAX_WHITE_SPACE = 1024;

/** Templates by name in one file. */
export const MAX_TEMPLATES = 64;

/** @throws {CheckpointError} for a source that would take long to parse. */
export function checkTemplateSource(file: string, source: string): void {
  if (source.length > MAX_TEMPLATE) {
    const limit = `over the limit of ${MAX_TEMPLATE}`;
    const problem = `the chat template has ${source.length} UTF-16 units, ${limit}`;
    throw new CheckpointError(file, problem);
  }
  for (const [run] of source.matchAll(/\s+/g)) {
    if (run.length <= MAX_WHITE_SPACE) continue;
    const problem = `the chat template has ${run.length} characters of white space in a row`;
    throw new CheckpointError(file, `${problem}, over the limit of ${MAX_WHITE_SPACE}`);
  }
}

/** @throws {CheckpointError} for more templates than a model has. */
export function checkTemplateCount(file: string, count: number): void {
  if (count <= MAX_TEMPLATES) return;
  const problem = `it has ${count} chat templates, over the limit of ${MAX_TEMPLATES}`;
  throw new CheckpointError(file, problem, "chat_template");
}
