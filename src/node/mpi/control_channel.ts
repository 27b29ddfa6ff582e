/**
 * What two launchers say to each other: a JSON value a line over TCP, and a sign of life when there
 * is nothing else to say.
 *
 * @module
 */
import type { Socket } from "node:net";

/** Why an end is left that speaks another language. */
export const SAID_BY_NONE = "what it says is not said by a launcher";

export const CONTROL_LIMITS = {
  /** UTF-16 units of a message of a launcher. The largest has what MPI puts for all ranks of a node. */
  message: 4 * 2 ** 20,
  /** Of a stranger's first message. */
  firstMessage: 64 * 2 ** 10,
  /** Connections that may be open beside those of the group's nodes. */
  strangers: 16,
  /** Milliseconds in which a connection has to say who it is. */
  introduction: 10_000,
} as const;
/** Signs of life that may be missing. */
const MISSES = 3;

export interface Message {
  readonly type: string;
  readonly [field: string]: unknown;
}

export interface ChannelEvents {
  onMessage(message: Message): void;
  /** Once: the other end is gone, frozen or no launcher. `isClosed` where it has only hung up. */
  onEnd(reason: string, isClosed: boolean): void;
}

export class ControlChannel {
  readonly #socket: Socket;
  readonly #events: ChannelEvents;
  #timer: NodeJS.Timeout | undefined;
  #text = "";
  #longest: number = CONTROL_LIMITS.firstMessage;
  #misses = 0;
  #ended = false;

  constructor(socket: Socket, events: ChannelEvents) {
    this.#socket = socket;
    this.#events = events;
    socket.setNoDelay(true);
    socket.setEncoding("utf8");
    socket.on("data", (text: string) => this.#read(text));
    socket.on("error", ({ message }) => this.#end(`its connection has failed: ${message}`, true));
    socket.on("close", () => this.#end("its connection has ended", true));
  }

  send(message: Message): void {
    if (this.#socket.writable) this.#socket.write(`${JSON.stringify(message)}\n`);
  }

  /** The other end is a launcher of this group: it gives signs of life and may say more. */
  trust(beatMilliseconds: number): void {
    this.#longest = CONTROL_LIMITS.message;
    this.#timer = setInterval(() => {
      this.send({ type: "beat" });
      this.#misses += 1;
      if (this.#misses > MISSES) {
        this.#end(`it has given no sign of life for ${(MISSES * beatMilliseconds) / 1000} s`);
        this.#socket.destroy();
      }
    }, beatMilliseconds);
  }

  /** Sends what is left to send, and closes. Nothing more is told of the other end. */
  close(): void {
    this.#stop();
    this.#socket.end();
    // The other end may be frozen; what was written had its time.
    setTimeout(() => this.#socket.destroy(), 500).unref();
  }

  #read(text: string): void {
    if (this.#ended) return;
    this.#misses = 0;
    this.#text += text;
    const lines = this.#text.split("\n");
    this.#text = lines.pop()!;
    for (const line of lines) {
      const message = line.length > this.#longest ? undefined : parse(line);
      if (message === undefined) {
        this.#refuse();
        return;
      }
      if (message.type !== "beat") this.#events.onMessage(message);
      if (this.#ended) return;
    }
    if (this.#text.length > this.#longest) this.#refuse();
  }

  #refuse(): void {
    this.#end(SAID_BY_NONE);
    this.#socket.destroy();
  }

  #stop(): void {
    this.#ended = true;
    clearInterval(this.#timer);
  }

  #end(reason: string, isClosed = false): void {
    if (this.#ended) return;
    this.#stop();
    this.#events.onEnd(reason, isClosed);
  }
}

function parse(line: string): Message | undefined {
  try {
    const value: unknown = JSON.parse(line);
    const isMessage =
      typeof value === "object" && value !== null && "type" in value && !Array.isArray(value);
    return isMessage && typeof value.type === "string" ? (value as Message) : undefined;
  } catch {
    return undefined;
  }
}
