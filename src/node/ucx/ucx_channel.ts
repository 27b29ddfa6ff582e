/**
 * A connection whose pages may go by UCX, beside another one that carries everything else and says of
 * each message with pages when it was sent: so all messages stay in their order.
 *
 * Pages go from one end to the other only. The end that takes them offers a way: its address, and a
 * tag that is its secret. It asks for its offer once it knows the other end, and until then nothing is
 * received by UCX, whatever is said of it.
 *
 * UCX chooses among all networks of both machines, of which one may be gone by then or lead nowhere.
 * So the end that sends proves the way first, by a byte whose arrival the other end tells it; until
 * then pages go as all other messages do, and for good where it never arrives. Where pages may go no
 * other way they go by UCX at once.
 *
 * @module
 */
import type {
  BytesWay,
  Channel,
  ChannelEvents,
  ChannelMessage,
} from "../../disaggregation/channel.ts";
import { MAX_UNSENT_BYTES } from "../disaggregation/web_socket_channel.ts";
import { lengthOf, type Tag, type UcxLibrary } from "./ucx_library.ts";

/** Begins what stands for a message that goes by UCX; no message is like it, which are JSON. */
const NOTE = "#";
/** The byte that proves the way is sent, and has arrived. */
const PROBE = "#?";
const ARRIVED = "#!";

export interface UcxChannelOptions {
  readonly ucx: UcxLibrary;
  /** Whether pages go by UCX or not at all. */
  readonly isRequired: boolean;
  /** Bytes of a message at most. */
  readonly maxMessage: number;
  /** Milliseconds in which pages come that others wait behind. Default 30000. */
  readonly arrivalTimeout?: number;
  /** Told why pages do not go by UCX, though both ends have it. */
  readonly onDetour?: ((problem: string) => void) | undefined;
}

/** UCX connects first, which on a busy machine takes seconds. */
const ARRIVAL_TIMEOUT = 30_000;

type Bytes = Uint8Array<ArrayBuffer>;

/** A message that waits, or that bytes are awaited for. */
interface Behind {
  readonly message: ChannelMessage | Promise<Bytes>;
  readonly length: number;
}

/** Bytes that a message that waits takes beside its own. */
const MESSAGE_BYTES = 256;

export class UcxChannel implements Channel {
  readonly way: BytesWay;
  readonly #inner: Channel;
  readonly #options: UcxChannelOptions;
  /** Of what comes here. */
  readonly #tag = newTag();
  /** Of the proof that what is sent arrives. */
  #waiting: NodeJS.Timeout | undefined;
  #events: ChannelEvents | undefined;
  /** Where what is sent goes by UCX. */
  #target: { readonly peer: number; readonly tag: Tag } | undefined;
  /** Whether what is sent has arrived there before. */
  #isProven = false;
  #hasProbe = false;
  #unsentBytes = 0;
  /** What has come behind bytes that are still on their way. */
  readonly #behind: Behind[] = [];
  #behindBytes = 0;
  /** Whether this end takes pages, from another one that it knows. */
  #mayReceive = false;
  #isOver = false;

  constructor(inner: Channel, options: UcxChannelOptions) {
    this.#inner = inner;
    this.#options = options;
    const { ucx, isRequired } = options;
    const offer = () => this.#offer();
    this.way = {
      name: "ucx",
      isRequired,
      get offer() {
        return offer();
      },
      fits: (offer) => offerOf(offer)?.version === ucx.version,
      take: (offer) => this.#connect(offer),
    };
  }

  listen(events: ChannelEvents): void {
    this.#events = events;
    this.#inner.listen({
      onMessage: (message) => this.#take(message),
      onClose: (reason) => this.#end(reason),
    });
  }

  send(message: ChannelMessage): void {
    if (this.#isOver) return;
    if (typeof message === "string" || this.#target === undefined || !this.#isProven) {
      this.#inner.send(message);
      return;
    }
    const { peer, tag } = this.#target;
    const pieces = message instanceof Uint8Array ? [message] : message;
    const length = lengthOf(pieces);
    if (this.#unsentBytes + length > MAX_UNSENT_BYTES) {
      this.#fail(`it leaves ${MAX_UNSENT_BYTES} bytes lying`);
      return;
    }
    this.#unsentBytes += length;
    this.#inner.send(`${NOTE}${length}`);
    this.#options.ucx.send(peer, tag, pieces).then(
      () => {
        this.#unsentBytes -= length;
      },
      (error: Error) => this.#fail(error.message),
    );
  }

  close(reason: string): void {
    if (this.#isOver) return;
    this.#leave();
    this.#inner.close(reason);
  }

  #offer(): string {
    this.#mayReceive = true;
    const { version, address } = this.#options.ucx;
    return JSON.stringify({
      version,
      ...this.#tag,
      address: Buffer.from(address).toString("base64"),
    });
  }

  #connect(offer: string): void {
    const { low, high, address } = offerOf(offer)!;
    const { peer, connected } = this.#options.ucx.connect(
      new Uint8Array(Buffer.from(address, "base64")),
    );
    this.#target = { peer, tag: { low, high } };
    this.#isProven = this.#options.isRequired;
    this.#inner.send(PROBE);
    const probe = this.#options.ucx.send(peer, { low, high }, [new Uint8Array(1)]);
    for (const done of [connected, probe]) done.catch((error: Error) => this.#lose(error.message));
    const { arrivalTimeout = ARRIVAL_TIMEOUT } = this.#options;
    const problem = `nothing has arrived by UCX within ${arrivalTimeout / 1000} s`;
    this.#waiting = setTimeout(() => this.#lose(problem), arrivalTimeout);
  }

  /** UCX does not get through. */
  #lose(problem: string): void {
    clearTimeout(this.#waiting);
    if (this.#isOver || this.#target === undefined) return;
    if (this.#isProven) {
      this.#fail(problem);
      return;
    }
    this.#options.ucx.disconnect(this.#target.peer);
    this.#target = undefined;
    this.#options.onDetour?.(problem);
  }

  #take(message: ChannelMessage): void {
    if (this.#isOver || this.#isOfProof(message)) return;
    const isNote = this.#mayReceive && typeof message === "string" && message.startsWith(NOTE);
    if (!isNote && this.#behind.length === 0) {
      this.#events!.onMessage(message);
      return;
    }
    const length = isNote ? this.#lengthIn(message) : lengthIn(message);
    if (length === undefined) return;
    // A sign of life is one, whatever it waits for.
    this.#events!.onHeard?.();
    if (this.#behindBytes + length + MESSAGE_BYTES > MAX_UNSENT_BYTES) {
      this.#fail(`more than ${MAX_UNSENT_BYTES} bytes wait behind pages that do not come`);
      return;
    }
    this.#behindBytes += length + MESSAGE_BYTES;
    this.#behind.push({ message: isNote ? this.#receive(length) : message, length });
    if (this.#behind.length === 1) void this.#deliver();
  }

  /** Whether a message is about the byte that proves the way. */
  #isOfProof(message: ChannelMessage): boolean {
    if (message === ARRIVED && this.#waiting !== undefined) {
      clearTimeout(this.#waiting);
      this.#isProven = this.#target !== undefined;
      return true;
    }
    if (message !== PROBE || !this.#mayReceive || this.#hasProbe) return false;
    this.#hasProbe = true;
    this.#receive(1).then(
      () => this.#inner.send(ARRIVED),
      () => {},
    );
    return true;
  }

  /** @returns Undefined where no such message may come. */
  #lengthIn(note: string): number | undefined {
    const length = Number(note.slice(NOTE.length));
    const { maxMessage } = this.#options;
    if (!Number.isSafeInteger(length) || length < 1 || length > maxMessage) {
      this.#fail(`it sends a message of ${note.slice(NOTE.length, 20)} bytes`);
      return undefined;
    }
    return length;
  }

  #receive(length: number): Promise<Bytes> {
    const arriving = this.#options.ucx.receive(this.#tag, length);
    // Told when its turn comes.
    arriving.catch(() => {});
    return arriving;
  }

  async #deliver(): Promise<void> {
    while (this.#behind.length > 0 && !this.#isOver) {
      let message: ChannelMessage;
      const late = this.#limitArrival();
      try {
        message = await this.#behind[0]!.message;
      } catch (error) {
        this.#fail((error as Error).message);
        return;
      } finally {
        clearTimeout(late);
      }
      if (this.#isOver) return;
      this.#behindBytes -= this.#behind.shift()!.length + MESSAGE_BYTES;
      // It may end the connection.
      this.#events!.onMessage(message);
    }
  }

  /** What waits behind pages would wait for ever, where UCX is cut off and the other way is not. */
  #limitArrival(): NodeJS.Timeout {
    const { arrivalTimeout = ARRIVAL_TIMEOUT } = this.#options;
    const problem = `pages have not come by UCX within ${arrivalTimeout / 1000} s`;
    return setTimeout(() => this.#fail(problem), arrivalTimeout);
  }

  /** Ends the connection, as it does not carry pages any more. */
  #fail(reason: string): void {
    if (this.#isOver) return;
    this.#inner.close(reason);
    this.#end(reason);
  }

  #end(reason: string): void {
    if (this.#isOver) return;
    this.#leave();
    this.#events?.onClose(reason);
  }

  #leave(): void {
    this.#isOver = true;
    this.#behind.length = 0;
    clearTimeout(this.#waiting);
    const { ucx } = this.#options;
    ucx.forget(this.#tag);
    if (this.#target !== undefined) ucx.disconnect(this.#target.peer);
  }
}

function lengthIn(message: ChannelMessage): number {
  if (typeof message === "string") return message.length;
  return message instanceof Uint8Array ? message.length : lengthOf(message);
}

function newTag(): Tag {
  const [low, high] = crypto.getRandomValues(new Uint32Array(2)) as unknown as [number, number];
  return { low, high };
}

interface Offer extends Tag {
  readonly version: string;
  readonly address: string;
}

/** @returns Undefined for what is no offer of UCX. */
function offerOf(text: string): Offer | undefined {
  try {
    const { version, low, high, address } = JSON.parse(text) as Offer;
    const isWord = (value: unknown) => Number.isInteger(value) && (value as number) >>> 0 === value;
    const isText = (value: unknown) => typeof value === "string" && value !== "";
    const fits = isText(version) && isText(address) && isWord(low) && isWord(high);
    return fits ? { version, low, high, address } : undefined;
  } catch {
    return undefined;
  }
}
