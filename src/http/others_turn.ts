/**
 * How work that takes a while lets other work of its thread go on.
 *
 * @module
 */

/** Resolves when timers, sockets and the GPU's answers had a turn. */
export function othersTurn(): Promise<void> {
  return new Promise((resolve) => setTimeout(resolve));
}
