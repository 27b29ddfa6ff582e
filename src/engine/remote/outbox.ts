/**
 * Messages for another thread: all that are written in one go are sent as one.
 *
 * What is asked for many sequences at once is so answered at once, and they go on in one step.
 *
 * @module
 */
export class Outbox<Message> {
  readonly #send: (messages: readonly Message[]) => void;
  #waiting: Message[] = [];

  constructor(send: (messages: readonly Message[]) => void) {
    this.#send = send;
  }

  /** Sends the message soon: before anything but what is running now. */
  add(message: Message): void {
    if (this.#waiting.push(message) > 1) return;
    queueMicrotask(() => {
      const messages = this.#waiting;
      this.#waiting = [];
      this.#send(messages);
    });
  }
}
