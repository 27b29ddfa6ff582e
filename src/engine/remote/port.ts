/**
 * One end of a channel of messages: a `MessagePort`, a socket, whatever carries plain data in order.
 *
 * @module
 */

export interface Port {
  /**
   * Sends plain data to the other end.
   *
   * @param transfer Memory that moves there and is gone here.
   */
  post(message: unknown, transfer?: ArrayBuffer[]): void;
  /** Called for each message; those that came before it was set are kept for it. */
  onMessage: ((message: unknown) => void) | undefined;
  /** Called when the other end is gone, where the platform can tell, and not after `close`. */
  onEnd: ((problem: string) => void) | undefined;
  close(): void;
}

/** The port over one end of a `MessageChannel`, of this thread or of another one. */
export function messagePort(port: MessagePort): Port {
  let onMessage: Port["onMessage"];
  const wrapped: Port = {
    post: (message, transfer = []) => port.postMessage(message, transfer),
    get onMessage() {
      return onMessage;
    },
    set onMessage(take) {
      onMessage = take;
      if (take !== undefined) port.start();
    },
    onEnd: undefined,
    close() {
      wrapped.onEnd = undefined;
      onMessage = undefined;
      port.close();
    },
  };
  port.addEventListener("message", ({ data }) => onMessage?.(data));
  port.addEventListener("messageerror", () => wrapped.onEnd?.("a message cannot be read here"));
  port.addEventListener("close", () => wrapped.onEnd?.("its other end is closed"));
  return wrapped;
}
