/**
 * Where a prefill and a decode server meet that share a request.
 *
 * @module
 */

export interface Bootstrap {
  /** Of the prefill server's bootstrap port. Default: there is none, which a decode server refuses. */
  readonly host?: string | undefined;
  /** Default: the server's own. */
  readonly port?: number | undefined;
  /** Names the request on both servers; no other that lives has the same. */
  readonly room: string;
}

export interface SharedRequest {
  /** Of a request that a prefill and a decode server share; other engines take no notice of it. */
  readonly bootstrap?: Bootstrap;
}
