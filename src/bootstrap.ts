/**
 * Where a prefill and a decode server meet that share a request.
 *
 * @module
 */

/** By which a decode server that does not know the group's key may open the rooms made for it. */
export interface PageTicket {
  /** Says which ticket it is, and until when it may be used. */
  readonly id: string;
  /** What the group's key makes of that. */
  readonly secret: string;
}

/** An answer that another decode server has begun, or may go on with. */
export interface BegunAnswer {
  /** Of the draws of a request that names none. */
  readonly seed: number;
  /** Those that its client may have: it goes on behind them. */
  readonly tokens: readonly number[];
}

export interface Bootstrap {
  /** Of the prefill server's bootstrap port. Default: there is none, which a decode server refuses. */
  readonly host?: string | undefined;
  /** Default: the server's own. */
  readonly port?: number | undefined;
  /** Names the request on both servers; no other that lives has the same. */
  readonly room: string;
  /** Of a decode node: with which it connects. On a prefill server the id of whose room it is. */
  readonly ticket?: PageTicket | string | undefined;
  /** Default: it begins here, and ends here. */
  readonly begun?: BegunAnswer | undefined;
}

export interface SharedRequest {
  /** Of a request that a prefill and a decode server share; other engines take no notice of it. */
  readonly bootstrap?: Bootstrap;
}
