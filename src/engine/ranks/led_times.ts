/**
 * Times of ranks that are elsewhere: orders have them measured, and bring them to the first rank.
 *
 * @module
 */
import { DeviceError, UnsupportedError } from "../../errors.ts";
import type { Collected } from "../../gpu/profile_collector.ts";
import type { Communicator } from "../../parallel/communicator.ts";
import type { MeasuredRanks, RankTimes, WantedTimes } from "../step/step_runner.ts";
import type { LedGroup } from "./led_group.ts";
import { asFirsts, type ClockOffset, meetClocks } from "./meet_clocks.ts";
import type { PlainFormat } from "./order_channel.ts";
import { asMeasured, onClockOf, RankStopwatch } from "./rank_stopwatch.ts";

/** What a rank brings: nothing where it has lost what it measured. */
interface BroughtTimes {
  /** By its own clock, what its times count from. */
  readonly started: number;
  readonly spans: Collected;
}

/** Every rank says whether it can take times; all of them hear of all. */
async function shareReadiness(
  { size, ...group }: Communicator,
  isReady: boolean,
): Promise<Uint8Array> {
  const all = new Uint8Array(size);
  const exchange = { name: "who can take times", counts: Array<number>(size).fill(1) };
  await group.allGather(Uint8Array.of(isReady ? 1 : 0), all, exchange);
  return all;
}

/** Every rank brings bytes, as many as it likes. */
async function bring(
  { size, ...group }: Communicator,
  part: Uint8Array,
): Promise<readonly Uint8Array[]> {
  const lengths = new Float64Array(size);
  const own = new Uint8Array(Float64Array.of(part.length).buffer);
  const head = { name: "how much was measured", counts: Array<number>(size).fill(own.length) };
  await group.allGather(own, new Uint8Array(lengths.buffer), head);
  const counts = [...lengths];
  const all = new Uint8Array(counts.reduce((sum, count) => sum + count, 0));
  await group.allGather(part, all, { name: "what was measured", counts });
  let end = 0;
  return counts.map((count) => {
    end += count;
    return all.subarray(end - count, end);
  });
}

/** The first rank's side. */
export class LedTimes implements RankTimes {
  readonly #communicator: Communicator;
  readonly #group: LedGroup;
  #clocks: readonly ClockOffset[] = [];

  constructor(communicator: Communicator, group: LedGroup) {
    this.#communicator = communicator;
    this.#group = group;
  }

  get size(): number {
    return this.#communicator.size;
  }

  async begin(wanted: WantedTimes): Promise<void> {
    const ready = await this.#together(async () => {
      await this.#group.send({ type: "begin times", wanted });
      const all = await shareReadiness(this.#communicator, true);
      if (!all.includes(0)) this.#clocks = await meetClocks(this.#communicator);
      return all;
    });
    const rank = ready.indexOf(0);
    if (rank < 0) return;
    const reason = `the device of rank ${rank} does not have the feature timestamp-query`;
    throw new UnsupportedError("a profile", reason);
  }

  async end(started: number): Promise<MeasuredRanks> {
    const [clocks, brought] = await this.#together(async () => {
      await this.#group.send({ type: "end times" });
      const clocks = await meetClocks(this.#communicator);
      return [clocks, await bring(this.#communicator, new Uint8Array(0))] as const;
    });
    const ranks = brought.slice(1).map((bytes, i) => {
      const rank = i + 1;
      if (bytes.length === 0) {
        throw new DeviceError(`Cannot finish the profile: rank ${rank} has lost its device`);
      }
      const own = this.#group.link.format.unpack(bytes) as BroughtTimes;
      const [before, behind] = [this.#clocks[rank]!, clocks[rank]!];
      const toFirst = (time: number) =>
        1000 * (asFirsts(own.started + time / 1000, before, behind) - started);
      const clockError = 1000 * Math.max(before.error, behind.error);
      return { spans: onClockOf(own.spans, toFirst), clockError };
    });
    return asMeasured(ranks);
  }

  /** In a turn of its own; the others wait for what is exchanged next, so a failure ends the group. */
  async #together<T>(work: () => Promise<T>): Promise<T> {
    try {
      return await this.#group.inTurn(work);
    } catch (error) {
      this.#communicator.abort(`its profile failed: ${(error as Error).message}`);
      throw error;
    }
  }
}

/** The side of the other ranks. */
export class FollowedTimes {
  readonly #communicator: Communicator;
  readonly #format: PlainFormat;
  /** Present while the first rank takes a profile. */
  watch: RankStopwatch | undefined;

  constructor(communicator: Communicator, format: PlainFormat) {
    this.#communicator = communicator;
    this.#format = format;
  }

  /** @throws {GroupError} when a rank has left. */
  async begin(device: GPUDevice, wanted: WantedTimes): Promise<void> {
    try {
      this.watch = new RankStopwatch(device, wanted, this.#communicator.size);
    } catch (error) {
      if (!(error instanceof UnsupportedError)) throw error;
    }
    const ready = await shareReadiness(this.#communicator, this.watch !== undefined);
    if (ready.includes(0)) this.forget();
    else await meetClocks(this.#communicator);
  }

  /** Brings what there is to the first rank. @throws {GroupError} when a rank has left. */
  async end(): Promise<void> {
    const { watch } = this;
    try {
      await meetClocks(this.#communicator);
      // A lost device is told of by the next exchange of a step.
      const spans = await watch?.end().catch(() => undefined);
      const brought = spans && { started: watch!.collector.started, spans };
      await bring(this.#communicator, brought ? this.#format.pack(brought) : new Uint8Array(0));
    } finally {
      this.forget();
    }
  }

  /** The device is left, and nothing of it is wanted any more. */
  forget(): void {
    this.watch?.destroy();
    this.watch = undefined;
  }
}
