/**
 * A connection between a prefill and a decode server, whatever carries it: messages come whole, in
 * order and once, or the connection ends.
 *
 * @module
 */

/** Bytes of a message, in pieces that need not be put together: a channel may cut them elsewhere. */
export type MessagePieces = readonly Uint8Array<ArrayBuffer>[];

/** Text is control, bytes are pages. */
export type ChannelMessage = string | Uint8Array<ArrayBuffer> | MessagePieces;

export interface ChannelEvents {
  onMessage(message: ChannelMessage): void;
  /** Something has come that waits for its turn behind pages: the other end lives. */
  onHeard?(): void;
  /** Once: nothing comes or goes any more, for this reason. */
  onClose(reason: string): void;
}

/** Another way for pages than that of all other messages. */
export interface BytesWay {
  readonly name: string;
  /** Whether pages may go no other way. */
  readonly isRequired: boolean;
  /** What the other end has to know to send pages here, which come from when it is read: by then it is known. */
  readonly offer: string;
  /** Whether what the other end offers is of the same kind. */
  fits(offer: string): boolean;
  /** Has pages that are sent go there from now on, in order with all other messages. */
  take(offer: string): void;
}

export interface Channel {
  /** Absent: there is none but that of all messages. */
  readonly way?: BytesWay;
  /** Takes what comes, from the first message on. Called once. */
  listen(events: ChannelEvents): void;
  send(message: ChannelMessage): void;
  /** Ends it here: `onClose` is not called. */
  close(reason: string): void;
}

/** The bytes of a message in one piece. */
export function wholeOf(message: Exclude<ChannelMessage, string>): Uint8Array<ArrayBuffer> {
  if (message instanceof Uint8Array) return message;
  if (message.length === 1) return message[0]!;
  const whole = new Uint8Array(message.reduce((sum, { length }) => sum + length, 0));
  message.reduce((at, piece) => {
    whole.set(piece, at);
    return at + piece.length;
  }, 0);
  return whole;
}
