/**
 * Origins of pages, as lists of those that may use a server have them.
 *
 * @module
 */

/** Stands for the pages of all origins. */
export const EVERY_ORIGIN = "*";

/** What pages of a browser's extension are of. */
const EXTENSION = /^[a-z][a-z-]*-extension:\/\/[\w-]+$/;

/** What browsers send: scheme, host and port, the latter where it is not the scheme's own; or `*`. */
export function isOrigin(text: string): boolean {
  if (text === EVERY_ORIGIN || text === "null" || EXTENSION.test(text)) return true;
  return URL.canParse(text) && new URL(text).origin === text;
}
