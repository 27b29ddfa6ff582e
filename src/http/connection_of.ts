/**
 * The connection of a request, so far as the platform that has the socket gives it.
 *
 * @module
 */

const cuts = new WeakMap<Request, () => void>();

/** @param cut Closes the connection, whatever is on its way over it. */
export function setConnection(request: Request, cut: () => void): void {
  cuts.set(request, cut);
}

/**
 * Closes the connection of a request, so that the client sees that its answer is not whole.
 *
 * @returns Whether there is one.
 */
export function cutConnection(request: Request): boolean {
  const cut = cuts.get(request);
  cut?.();
  return cut !== undefined;
}
