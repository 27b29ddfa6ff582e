/**
 * Rooms over a network that loses, freezes and delays: engines that only count, on both sides of real
 * rooms, in a time of the campaign's own.
 *
 * @module
 */
import type { Channel, ChannelEvents, ChannelMessage } from "../../src/disaggregation/channel.ts";
import { DecodeRooms } from "../../src/disaggregation/decode_rooms.ts";
import { PrefillRooms } from "../../src/disaggregation/prefill_rooms.ts";
import { travellingPrompt } from "../../src/engine/transfer/page_routes.ts";
import { seeded } from "./seeded.ts";

/** How a request ended on one side. */
export type Ending = "right" | "failed";

/** Things to do at times, in their order. */
class Timeline {
  now = 0;
  readonly #due: { at: number; order: number; work: () => void }[] = [];
  #order = 0;

  after(milliseconds: number, work: () => void): void {
    this.#order += 1;
    this.#due.push({ at: this.now + milliseconds, order: this.#order, work });
  }

  /** The next thing that is due by then. */
  next(by: number): (() => void) | undefined {
    this.#due.sort((a, b) => a.at - b.at || a.order - b.order);
    if ((this.#due[0]?.at ?? Number.POSITIVE_INFINITY) > by) return undefined;
    return this.#due.shift()!.work;
  }
}

/** One end of a connection that delays, and may be cut or frozen. */
class End implements Channel {
  other!: End;
  events: ChannelEvents | undefined;
  isOver = false;
  readonly #wire: Wire;
  /** When the newest message arrives: none overtakes another. */
  #arrival = 0;

  constructor(wire: Wire) {
    this.#wire = wire;
  }

  listen(events: ChannelEvents): void {
    this.events = events;
  }

  send(message: ChannelMessage): void {
    const { timeline, delay } = this.#wire;
    if (this.isOver) return;
    this.#arrival = Math.max(this.#arrival, timeline.now + delay());
    timeline.after(this.#arrival - timeline.now, () => {
      if (!this.#wire.isFrozen && !this.other.isOver) this.other.events?.onMessage(message);
    });
  }

  close(reason: string): void {
    if (this.isOver) return;
    this.isOver = true;
    this.#wire.timeline.after(this.#wire.delay(), () => this.other.end(reason));
  }

  end(reason: string): void {
    if (this.isOver) return;
    this.isOver = true;
    this.events?.onClose(reason);
  }
}

interface Wire {
  readonly timeline: Timeline;
  readonly delay: () => number;
  isFrozen: boolean;
}

export interface ScheduleResult {
  readonly endings: readonly (readonly [prefill: Ending, decode: Ending])[];
  /** Whether nothing was cut, frozen or left: then all must be right. */
  readonly isCalm: boolean;
  /** Milliseconds until the last request had ended on both sides. */
  readonly took: number;
  /** Rooms, leases, messages and timers that are left. */
  readonly left: readonly number[];
}

const TIMES = {
  openTimeout: 5000,
  takeTimeout: 5000,
  connectTimeout: 5000,
  waitTimeout: 30_000,
  heartbeat: { interval: 1000, misses: 3 },
};
const LAYOUT = {
  modelHash: "m",
  numerics: "{}",
  dtype: "bf16" as const,
  entryWidth: 8,
  pageSize: 4,
  layers: 2,
};

/** What a page of a room's prompt holds. */
const contents = (room: number, page: number) => Uint8Array.of(room & 255, page & 255, 7);

/**
 * Runs one schedule.
 *
 * @param advance Lets timers of the platform pass so many milliseconds, and what they have resolved.
 */
export async function runSchedule(
  seed: number,
  { advance, timers }: { advance: (ms: number) => Promise<void>; timers: () => number },
): Promise<ScheduleResult> {
  const random = seeded(seed);
  const draw = (count: number) => Math.floor(random() * count);
  let isCalm = true;
  const disturb = () => {
    isCalm = false;
  };
  const timeline = new Timeline();
  const wires: (Wire & { readonly ends: readonly [End, End] })[] = [];
  const prefillRooms = new PrefillRooms({ layout: LAYOUT, key: "k", times: TIMES, workers: 1 });
  const decodeRooms = new DecodeRooms({
    layout: LAYOUT,
    key: "k",
    times: TIMES,
    port: 1,
    hosts: [{ host: "p" }],
    connect: async () => {
      if (draw(8) === 0) {
        disturb();
        throw new Error("no server listens there");
      }
      const wire = { timeline, delay: () => draw(40), isFrozen: false };
      const [own, other] = [new End(wire), new End(wire)];
      own.other = other;
      other.other = own;
      wires.push(Object.assign(wire, { ends: [own, other] as const }));
      prefillRooms.accept(other);
      return own;
    },
  });
  const wait = (ms: number) => new Promise<void>((resolve) => timeline.after(ms, resolve));
  const prefill = async (room: number, tokens: readonly number[]): Promise<Ending> => {
    await wait(draw(100));
    if (draw(12) === 0) {
      disturb();
      return "failed"; // the request never came, or was refused
    }
    const own = prefillRooms.open(String(room));
    const leaves = draw(6) === 0;
    if (leaves) timeline.after(draw(400), () => own.fail(new Error("the client left")));
    if (leaves) disturb();
    try {
      const work = async () => {
        const prompt = travellingPrompt({ tokens }, LAYOUT.pageSize);
        const first = await own.begin(prompt);
        for (let page = first; page < prompt.pageCount; page++) {
          await wait(draw(20));
          await own.take({ first: page, count: 1, bytes: contents(room, page) });
        }
        own.computed([]);
        own.end(0);
        await own.over;
      };
      await Promise.race([work(), own.over]);
      return "right";
    } catch {
      return "failed";
    } finally {
      own.fail(new Error("it has ended"));
    }
  };

  const decode = async (room: number, tokens: readonly number[]): Promise<Ending> => {
    await wait(draw(100));
    const own = decodeRooms.open({ host: "p", room: String(room) }, false);
    const leaves = draw(6) === 0;
    if (leaves) timeline.after(draw(400), () => own.leave());
    if (leaves) disturb();
    try {
      const prompt = travellingPrompt({ tokens }, LAYOUT.pageSize);
      own.announce(prompt);
      await wait(draw(60));
      let next = draw(3) === 0 ? Math.min(draw(4), prompt.pageCount) : 0;
      for await (const { first, bytes } of own.pages(next)) {
        await wait(draw(20));
        const isRight = first === next && `${bytes}` === `${contents(room, next)}`;
        if (!isRight) throw new TypeError(`page ${first} of room ${room} is wrong`);
        next += 1;
      }
      if (next !== prompt.pageCount) throw new TypeError(`room ${room} ends at page ${next}`);
      return "right";
    } catch (error) {
      if (error instanceof TypeError) throw error;
      return "failed";
    } finally {
      own.leave();
    }
  };

  const count = 1 + draw(5);
  let ended = 0;
  let took = 0;
  const requests = Array.from({ length: count }, async (_, i) => {
    const tokens = Array.from({ length: 1 + draw(40) }, () => draw(1000));
    // Seldom the two sides are sent different prompts.
    const other = draw(20) === 0 ? [...tokens, 1] : tokens;
    if (other !== tokens) disturb();
    const both = await Promise.all([prefill(i, tokens), decode(i, other)]);
    ended += 1;
    took = timeline.now;
    return both;
  });
  const all = Promise.all(requests);
  let problem: unknown;
  all.catch((error: unknown) => {
    problem = error;
  });
  for (let faults = draw(3); faults > 0; faults--) {
    disturb();
    timeline.after(draw(300), () => {
      const wire = wires[draw(Math.max(wires.length, 1))];
      if (wire === undefined) return;
      if (draw(2) === 0) {
        wire.isFrozen = true;
        return;
      }
      for (const end of wire.ends) end.end("cut");
    });
  }
  while (ended < count && problem === undefined && timeline.now < 120_000) {
    for (let work = timeline.next(timeline.now); work; work = timeline.next(timeline.now)) {
      work();
      await advance(0);
    }
    timeline.now += 5;
    await advance(5);
  }
  if (problem !== undefined) throw problem;
  if (ended < count) throw new Error(`${count - ended} requests hang`);
  const endings = await all;
  // What is still on its way arrives, leases without a request run out.
  for (let i = 0; i < 12; i++) {
    timeline.now += 1000;
    for (let work = timeline.next(timeline.now); work; work = timeline.next(timeline.now)) {
      work();
      await advance(0);
    }
    await advance(1000);
  }
  const { rooms, awaited, frames } = prefillRooms.counts;
  decodeRooms.close();
  prefillRooms.close();
  await advance(10);
  return {
    endings,
    isCalm,
    took,
    left: [rooms, awaited, frames, decodeRooms.counts.rooms, timers()],
  };
}

/** Milliseconds: the longest of the deadlines, and the signs of life that may be missing. */
const MOST_TIME = 11_000;

/** What many schedules have come to. */
export class CampaignCounts {
  schedules = 0;
  /** Requests whose decode server had all pages in the end, and others. */
  right = 0;
  failed = 0;
  /** Schedules in which nothing was disturbed. */
  calm = 0;
  /** Milliseconds that the slowest one took, in its own time. */
  longest = 0;
  /** What is not as it must be. */
  readonly failures: string[] = [];

  async run(
    seed: number,
    clock: { advance: (ms: number) => Promise<void>; timers: () => number },
  ): Promise<void> {
    this.schedules += 1;
    try {
      this.#take(await runSchedule(seed, clock));
    } catch (error) {
      this.failures.push(`seed ${seed}: ${(error as Error).message}`);
    }
  }

  #take({ endings, isCalm, took, left }: ScheduleResult): void {
    if (left.some((count) => count > 0)) throw new Error(`${left} are left`);
    if (took >= MOST_TIME) throw new Error(`it took ${took} ms`);
    if (isCalm && endings.flat().includes("failed")) throw new Error("a calm one has failed");
    for (const [, decode] of endings) this[decode] += 1;
    if (isCalm) this.calm += 1;
    this.longest = Math.max(this.longest, took);
  }
}
