/**
 * What a model compiles to: segments of launches, with exchanges between them.
 *
 * A segment is recorded and submitted as one. An exchange is work of the host between two segments
 * (an all-reduce, an expert all-to-all, reading experts from disk). A plan without exchanges is one
 * segment and one submit a step. Layers add launches and exchanges; they never touch a queue.
 *
 * What a step's sizes decide can be kept in a recording and replayed in steps of the same sizes: no
 * layer is asked then, and no uniform value changes.
 *
 * @module
 */
import type { StepArrays } from "./launch_cost.ts";
import type { Brought, ExchangeKind, KeptLaunch } from "./recorded_launch.ts";
import type { Recorder } from "./recorder.ts";
import type { Tensor } from "./tensor.ts";

/** Records a layer's launches for a step; records none when the step has no work for it. */
export type RecordLaunches<Step> = (step: Step) => void;

type Item<Step> =
  | {
      readonly kind: "launches";
      readonly group: string;
      readonly record: RecordLaunches<Step>;
      readonly varies: boolean;
    }
  | {
      readonly kind: "exchange";
      readonly name: string;
      run(step: Step): Promise<void>;
      needed(): boolean;
      readonly brings: Brings<Step> | undefined;
    }
  | { readonly kind: "tap"; readonly name: string; readonly tensor: Tensor }
  | Part<Step>
  | Lanes<Step>;

interface Part<Step> {
  readonly kind: "part";
  readonly part: RepeatedPart<Step>;
  readonly items: readonly Item<Step>[];
}

/** Items that a step has several times side by side, each with sizes of its own. */
interface Lanes<Step> {
  readonly kind: "lanes";
  readonly turns: LaneTurns;
  readonly lanes: readonly (Pick<Lane<Step>, "stepOf" | "arraysOf"> & {
    readonly items: readonly Item<Step>[];
  })[];
}

/** Work of a step that may run beside other work of it. */
export interface Lane<Step> {
  /** Its sizes; undefined where the step does not have it. */
  stepOf(step: Step): Step | undefined;
  /** What kernels are told of its launches while these are timed. Default: what the step tells them. */
  arraysOf?(step: Step): StepArrays | undefined;
  /** Adds its launches and exchanges. */
  build(): void;
}

/** Which of several lanes may exchange. */
export interface LaneTurns {
  /** All lanes begin. */
  open(): void;
  /** A lane has ended, and has failed where there is an error. */
  leave(lane: number, failure?: { readonly error: unknown }): void;
}

/** What a rank brings to an exchange of which every rank gets all. */
export interface Brings<Step> {
  readonly kind: ExchangeKind;
  /** Of this rank; on average where the step's values decide it. */
  bytes(step: Step): number;
}

interface ExchangeOptions<Step> {
  /** Says whether this step has it; without it the segment goes on. Default: every step has. */
  readonly needed?: () => boolean;
  /** Absent where no other rank takes part. */
  readonly brings?: Brings<Step>;
}

/** The launches of one step, kept for others of the same sizes. Empty until a step has run with it. */
export class Recording {
  /** By item of the plan. */
  readonly parts = new Map<object, readonly KeptLaunch[]>();
}

/** A run of items that a step has several times or not at all, with sizes of its own. */
export interface RepeatedPart<Step> {
  /** How often a step has it. */
  times(step: Step): number;
  /** The sizes that its launches are given, each time from 0. Default: the step's. */
  stepOf?(step: Step, time: number): Step;
}

export interface RunOptions {
  /** Takes the step's launches, or gives them back when it has them. */
  readonly recording?: Recording | undefined;
  /** Called where the plan marked a tensor; may record a copy of it. */
  readonly onTap?: (name: string, tensor: Tensor) => void;
}

export class Plan<Step> {
  readonly recorder: Recorder;
  #items: Item<Step>[] = [];
  #group = "";

  constructor(recorder: Recorder) {
    this.recorder = recorder;
  }

  /** Names the part of the model that the following launches belong to, for reports. */
  group(name: string): void {
    this.#group = name;
  }

  /** Adds launches that the sizes of a step decide. */
  add(record: RecordLaunches<Step>): void {
    this.#items.push({ kind: "launches", group: this.#group, record, varies: false });
  }

  /** Adds launches or copies that differ between steps of the same sizes. */
  addVarying(record: RecordLaunches<Step>): void {
    this.#items.push({ kind: "launches", group: this.#group, record, varies: true });
  }

  /** Ends the segment; `run` is awaited before the next one is recorded. */
  exchange(
    name: string,
    run: (step: Step) => Promise<void>,
    { needed = () => true, brings }: ExchangeOptions<Step> = {},
  ): void {
    this.#items.push({ kind: "exchange", name, run, needed, brings });
  }

  /**
   * Adds what `build` adds as a part: launches that are recorded once are replayed as often as the
   * step has the part, so what they read may change on the GPU only.
   */
  within(part: RepeatedPart<Step>, build: () => void): void {
    this.#items.push({ kind: "part", part, items: this.#itemsOf(build) });
  }

  /**
   * Adds work of which one part runs while another waits for an exchange: each lane is recorded up to
   * its next exchange, then the others are. Where a step has one of them, that runs alone.
   *
   * @param turns The order in which lanes that are there together exchange.
   */
  sideBySide(lanes: readonly Lane<Step>[], turns: LaneTurns): void {
    const built = lanes.map((lane) => ({ ...lane, items: this.#itemsOf(() => lane.build()) }));
    this.#items.push({ kind: "lanes", turns, lanes: built });
  }

  #itemsOf(build: () => void): readonly Item<Step>[] {
    const outer = this.#items;
    const items: Item<Step>[] = [];
    this.#items = items;
    try {
      build();
    } finally {
      this.#items = outer;
    }
    return items;
  }

  /** Marks a tensor that tests and tools may look at when the plan gets here. */
  tap(name: string, tensor: Tensor): void {
    this.#items.push({ kind: "tap", name, tensor });
  }

  /** Records and submits one step. Resolves when everything is submitted, not when it has run. */
  async run(step: Step, options: RunOptions = {}): Promise<void> {
    await this.#run(this.#items, step, options);
    this.recorder.submit();
  }

  async #run(items: readonly Item<Step>[], step: Step, options: LaneOptions): Promise<void> {
    const { onTap, recording, arrays } = options;
    for (const [item, sizes] of itemsOf(items, step)) {
      if (item.kind === "lanes") await this.#runLanes(item, sizes, options);
      else if (item.kind === "launches") {
        const { timer } = this.recorder;
        if (timer !== undefined) {
          timer.part = item.group;
          if (arrays !== undefined) timer.step = arrays;
        }
        if (item.varies || recording === undefined) item.record(sizes);
        else this.#replay(item, () => item.record(sizes), recording.parts);
      } else if (item.kind === "tap") onTap?.(item.name, item.tensor);
      else if (item.needed()) {
        this.recorder.submit();
        const { timer } = this.recorder;
        if (timer === undefined) await item.run(sizes);
        else await timer.exchange(item.name, () => item.run(sizes), broughtIn(item.brings, sizes));
      }
    }
  }

  async #runLanes(all: Lanes<Step>, step: Step, options: RunOptions): Promise<void> {
    const { turns } = all;
    const [first, ...others] = lanesOf(all, step);
    if (others.length === 0) {
      if (first !== undefined) await this.#run(first.items, first.step, options);
      return;
    }
    let failure: { readonly error: unknown } | undefined;
    const run = async ({ items, step: own, number, arrays }: RunLane<Step>) => {
      try {
        await this.#run(items, own, { ...options, arrays });
        this.recorder.submit();
        turns.leave(number);
      } catch (error) {
        failure ??= { error };
        turns.leave(number, failure);
      }
    };
    const { timer } = this.recorder;
    const told = timer?.step;
    turns.open();
    // Nothing of this step goes on once it has failed.
    await Promise.all([first!, ...others].map(run));
    if (timer !== undefined) timer.step = told!;
    if (failure !== undefined) throw failure.error;
  }

  #replay(item: object, record: () => void, parts: Recording["parts"]): void {
    const kept = parts.get(item);
    if (kept === undefined) parts.set(item, this.recorder.keep(record));
    else this.recorder.replay(kept);
  }

  /** Launches that one step records, by group. Records and submits the step. */
  async countLaunches(step: Step): Promise<Map<string, number>> {
    const counts = new Map<string, number>();
    for (const [item, sizes] of inTurns(this.#items, step)) {
      if (item.kind === "exchange" && item.needed()) {
        this.recorder.submit();
        await item.run(sizes);
      }
      if (item.kind !== "launches") continue;
      const before = this.recorder.launches;
      item.record(sizes);
      const added = this.recorder.launches - before;
      counts.set(item.group, (counts.get(item.group) ?? 0) + added);
    }
    this.recorder.submit();
    return counts;
  }
}

function broughtIn<Step>(brings: Brings<Step> | undefined, step: Step): Brought | undefined {
  return brings && { kind: brings.kind, bytes: brings.bytes(step) };
}

interface LaneOptions extends RunOptions {
  readonly arrays?: StepArrays | undefined;
}

interface RunLane<Step> extends Pick<LaneOptions, "arrays"> {
  readonly number: number;
  readonly items: readonly Item<Step>[];
  readonly step: Step;
}

/** The lanes that a step has. */
function lanesOf<Step>({ lanes }: Pick<Lanes<Step>, "lanes">, step: Step): RunLane<Step>[] {
  const found: RunLane<Step>[] = [];
  for (const [number, lane] of lanes.entries()) {
    const own = lane.stepOf(step);
    if (own === undefined) continue;
    const { items } = lane;
    found.push({ number, items, step: own, arrays: lane.arraysOf?.(own) });
  }
  return found;
}

/** The same as `itemsOf`, lane after lane. */
function* inTurns<Step>(
  items: readonly Item<Step>[],
  step: Step,
): Generator<readonly [Exclude<Item<Step>, Lanes<Step> | Part<Step>>, Step]> {
  for (const [item, sizes] of itemsOf(items, step)) {
    if (item.kind !== "lanes") yield [item, sizes];
    else for (const lane of lanesOf(item, sizes)) yield* inTurns(lane.items, lane.step);
  }
}

/** The items that a step has, in order, each with the sizes that it has there. */
function* itemsOf<Step>(
  items: readonly Item<Step>[],
  step: Step,
): Generator<readonly [Exclude<Item<Step>, Part<Step>>, Step]> {
  for (const item of items) {
    if (item.kind !== "part") {
      yield [item, step];
      continue;
    }
    const times = item.part.times(step);
    for (let time = 0; time < times; time++) {
      yield* itemsOf(item.items, item.part.stepOf?.(step, time) ?? step);
    }
  }
}
