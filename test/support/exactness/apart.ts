/**
 * Two engines that share every request, over a connection that is a pair of queues.
 *
 * @module
 */
import type {
  Channel,
  ChannelEvents,
  ChannelMessage,
} from "../../../src/disaggregation/channel.ts";
import { decoded } from "../../../src/disaggregation/decode_layer.ts";
import { DecodeRooms } from "../../../src/disaggregation/decode_rooms.ts";
import { prefilled, type TravelEngine } from "../../../src/disaggregation/prefill_layer.ts";
import { PrefillRooms } from "../../../src/disaggregation/prefill_rooms.ts";
import type { LocalRequest } from "../../../src/engine/create_sequence.ts";
import type { Engine } from "../../../src/engine/engine.ts";
import type { EngineStatus, GenerationChunk } from "../../../src/generation.ts";

const HEARTBEAT = { interval: 10_000, misses: 3 };
const TIMES = {
  openTimeout: 60_000,
  takeTimeout: 60_000,
  connectTimeout: 10_000,
  waitTimeout: 120_000,
  heartbeat: HEARTBEAT,
};

/** One end of a connection whose messages come in order, each in a turn of its own. */
class QueuedChannel implements Channel {
  other!: QueuedChannel;
  #events: ChannelEvents | undefined;
  #isOver = false;

  listen(events: ChannelEvents): void {
    this.#events = events;
  }

  send(message: ChannelMessage): void {
    setImmediate(() => {
      if (!this.#isOver) this.other.take(message);
    });
  }

  take(message: ChannelMessage): void {
    if (!this.#isOver) this.#events?.onMessage(message);
  }

  close(reason: string): void {
    if (this.#isOver) return;
    this.#isOver = true;
    setImmediate(() => this.other.end(reason));
  }

  end(reason: string): void {
    if (this.#isOver) return;
    this.#isOver = true;
    this.#events?.onClose(reason);
  }
}

export function channelPair(): readonly [QueuedChannel, QueuedChannel] {
  const [a, b] = [new QueuedChannel(), new QueuedChannel()];
  a.other = b;
  b.other = a;
  return [a, b];
}

/** What of an engine is needed here; several in one have it of all of them. */
export type ApartEngine = TravelEngine & Pick<Engine, "pageLayout" | "travellers">;

export interface Apart<T extends ApartEngine = Engine> {
  readonly prefill: T;
  readonly decode: T;
  readonly prefillRooms: PrefillRooms;
  readonly decodeRooms: DecodeRooms;
  /** @param prefilling What the engine that computes the prompt is asked. Default: the same. */
  generate(
    request: LocalRequest,
    prefilling?: LocalRequest,
  ): AsyncIterableIterator<GenerationChunk, undefined>;
  /** Of the engine that answers. */
  status(): EngineStatus;
  /** Rooms, leases and sequences whose pages travel, and tokens in use, of both: all 0 in the end. */
  left(): Promise<readonly number[]>;
  close(): Promise<void>;
}

let rooms = 0;

/** Answers requests of a decode engine, each of which is sent to the prefill engine too. */
export function apart<T extends ApartEngine>(prefill: T, decode: T): Apart<T> {
  const prefillRooms = new PrefillRooms({ layout: prefill.pageLayout!, key: "k", times: TIMES });
  const decodeRooms = new DecodeRooms({
    layout: decode.pageLayout!,
    key: "k",
    times: TIMES,
    port: 8998,
    hosts: [{ host: "127.0.0.1" }],
    connect: async () => {
      const [own, other] = channelPair();
      prefillRooms.accept(other);
      return own;
    },
  });
  const prefilling: Promise<void>[] = [];
  return {
    prefill,
    decode,
    prefillRooms,
    decodeRooms,
    generate(request, asked = request) {
      rooms += 1;
      const bootstrap = { host: "127.0.0.1", room: String(rooms) };
      const shared = { ...request, bootstrap };
      const done = (async () => {
        for await (const _ of prefilled(prefill, prefillRooms, { ...asked, bootstrap }));
      })();
      done.catch(() => {});
      prefilling.push(done);
      return decoded(decode, decodeRooms, shared);
    },
    status: () => decode.status(),
    left: async () => {
      // The prefill side of the last requests ends a few turns later.
      await Promise.allSettled(prefilling);
      const { rooms: held, awaited } = prefillRooms.counts;
      const travellers = [prefill, decode].flatMap((one) => Object.values(one.travellers!));
      const used = [prefill, decode].map((one) => one.status().usedTokens);
      return [held, awaited, decodeRooms.counts.rooms, ...travellers, ...used];
    },
    close: async () => {
      decodeRooms.close();
      prefillRooms.close();
      await prefill.close();
      await decode.close();
    },
  };
}
