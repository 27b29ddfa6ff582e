/**
 * Text of others on its way to a terminal.
 *
 * @module
 */

/** All that could move the cursor or speak to the terminal, but for ends of lines and tabs. */
// biome-ignore lint/suspicious/noControlCharactersInRegex: these are what must not reach a terminal.
const CONTROLS = /[\u0000-\u0008\u000b-\u001f\u007f-\u009f]/g;

/** A model, a server or a file must not be able to command the terminal. */
export function shown(text: string): string {
  return text.replace(CONTROLS, "\ufffd");
}
