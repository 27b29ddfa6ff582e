/**
 * Whose request it is, so far as the platform that has the socket says so.
 *
 * @module
 */

const clients = new WeakMap<Request, string>();

/** Takes note of whose request it is, by any name that stays the same for a client. */
export function setClient(request: Request, client: string): void {
  clients.set(request, client);
}

/** The client's name; undefined where nothing is known of it. */
export function clientOf(request: Request): string | undefined {
  return clients.get(request);
}
