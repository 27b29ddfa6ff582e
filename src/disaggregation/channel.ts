/**
 * A connection between a prefill and a decode server, whatever carries it: messages come whole, in
 * order and once, or the connection ends.
 *
 * @module
 */

/** Text is control, bytes are pages. */
export type ChannelMessage = string | Uint8Array<ArrayBuffer>;

export interface ChannelEvents {
  onMessage(message: ChannelMessage): void;
  /** Once: nothing comes or goes any more, for this reason. */
  onClose(reason: string): void;
}

export interface Channel {
  /** Takes what comes, from the first message on. Called once. */
  listen(events: ChannelEvents): void;
  send(message: ChannelMessage): void;
  /** Ends it here: `onClose` is not called. */
  close(reason: string): void;
}
