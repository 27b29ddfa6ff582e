/**
 * What clients may take of a server's sockets.
 *
 * @module
 */

/** What clients may take of a server's sockets before an app sees a request of theirs. */
export interface SocketLimits {
  /** Connections at once; more are closed as they come. */
  readonly connections: number;
  /** Requests of one connection that wait for answers; one more closes the connection. */
  readonly pipelined: number;
  /** Bytes of the headers of a request, its first line included; beyond: 431. */
  readonly headerBytes: number;
  /** Milliseconds within which the headers of a request must have come; beyond: 408. */
  readonly headersTime: number;
  /** Milliseconds within which all of a request must have come; beyond, the connection is closed. */
  readonly requestTime: number;
  /** Milliseconds that a connection may be silent between two requests. */
  readonly idleTime: number;
  /**
   * Milliseconds within which a client must take something of an answer that waits for it; beyond, the
   * connection is closed.
   */
  readonly sendTime: number;
  /** Milliseconds between two looks at these times. */
  readonly lookTime: number;
}

export const SOCKET_LIMITS: SocketLimits = {
  connections: 4096,
  pipelined: 16,
  headerBytes: 16 * 1024,
  headersTime: 20_000,
  requestTime: 120_000,
  idleTime: 5000,
  sendTime: 120_000,
  lookTime: 5000,
};

/** With a look at times in so far as they are short. @param sendTimeout Seconds. */
export function socketLimits({
  sendTimeout,
}: {
  readonly sendTimeout: number;
}): Pick<SocketLimits, "sendTime" | "lookTime"> {
  const sendTime = 1000 * sendTimeout;
  return { sendTime, lookTime: Math.min(SOCKET_LIMITS.lookTime, sendTime / 4) };
}
