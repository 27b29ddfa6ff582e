/**
 * The id of a model on a hub: `name` or `org/name`, with `@revision` behind it where one is meant.
 *
 * @module
 */

export interface ModelId {
  readonly id: string;
  /** Branch, tag or commit; undefined where the text names none. */
  readonly revision: string | undefined;
}

export const DEFAULT_REVISION = "main";

const PART = /^[A-Za-z0-9_](?:[A-Za-z0-9._-]*[A-Za-z0-9_])?$/;
const REVISION = /^[A-Za-z0-9_][A-Za-z0-9._/+-]*$/;
const LONGEST_ID = 96;

/** Undefined when the text is no id, as a path is not. */
export function parseModelId(text: string): ModelId | undefined {
  const at = text.indexOf("@");
  const id = at < 0 ? text : text.slice(0, at);
  const revision = at < 0 ? undefined : text.slice(at + 1);
  const parts = id.split("/");
  const isId =
    parts.length <= 2 && parts.every((part) => PART.test(part)) && id.length <= LONGEST_ID;
  // The cache's folders join the parts with two dashes, and hubs forbid these for that reason.
  if (!isId || /--|\.\./.test(id) || id.endsWith(".git")) return undefined;
  if (revision !== undefined && !isRevision(revision)) return undefined;
  return { id, revision };
}

/** Whether the text may name a revision. It becomes part of a path in the cache. */
export function isRevision(text: string): boolean {
  return REVISION.test(text) && !/\.\.|\/\/|\/$|(^|\/)\.|\.lock$/.test(text);
}

export function isCommit(text: string): boolean {
  return /^([0-9a-f]{40}|[0-9a-f]{64})$/.test(text);
}
