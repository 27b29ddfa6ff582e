/**
 * How much a router takes from decode nodes, which are pages of strangers' browsers, and gives to them.
 *
 * @module
 */

/** Decode nodes at once, those that have not shown a token yet among them. */
export const MAX_DECODE_NODES = 256;

/** Tokens by which one may join that were given and not used. */
export const MAX_NODE_TOKENS = 1024;

/** Requests of one node at once. */
export const MAX_NODE_REQUESTS = 8;

/** Bytes of a request's body that a node is sent; larger ones go to servers. */
export const MAX_NODE_BODY_BYTES = 4 * 2 ** 20;

/** Bytes of one message of a node. */
export const MAX_NODE_MESSAGE_BYTES = 2 ** 18;

/** Bytes of an answer that a node may be ahead of what the client has taken. */
export const MAX_NODE_BYTES_AHEAD = 2 ** 18;

/** Tokens of one request's answers that a router remembers, to have others go on behind them. */
export const MAX_BEGUN_TOKENS = 2 ** 17;

/** Answers of one request whose tokens it remembers. */
export const MAX_BEGUN_ANSWERS = 4096;

/** UTF-16 units of one event of an answer that another server may have to go on with. */
export const MAX_NODE_EVENT = 2 ** 22;

/** Characters of a request's path and query that a node is sent; longer ones go to servers. */
export const MAX_NODE_PATH = 4096;
