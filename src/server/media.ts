/**
 * Where images come from that requests name: files and addresses, by permission of who runs the server.
 *
 * @module
 */

export interface MediaOptions {
  readonly signal: AbortSignal;
  /**
   * Is told of bytes as they come, and throws where they are too many.
   *
   * @param bytes Further ones.
   */
  onBytes(bytes: number): void;
}

/** What a server may open for its clients; what is absent it refuses. */
export interface MediaAccess {
  /**
   * Bytes of a file, by its name or its `file:` URL.
   *
   * @throws {InvalidRequestError} as a rejection, when it is none that may be read, whether or not it exists.
   */
  readonly readFile?: (name: string, options: MediaOptions) => Promise<Uint8Array>;
  /**
   * Bytes of what a server answers at an address.
   *
   * @throws {InvalidRequestError} as a rejection, when it may not be asked, or does not answer.
   */
  readonly fetch?: (url: string, options: MediaOptions) => Promise<Uint8Array>;
}

export const NO_MEDIA: MediaAccess = {};
