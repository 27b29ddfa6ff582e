/**
 * Stacks of an automaton that calls rules, counts rounds and remembers parts of lists.
 *
 * A frame is the top of a stack; the frames below it are its parents, down to the bottom. Equal
 * stacks are one object, so stacks share what is below and are compared by identity.
 *
 * @module
 */

import type { CountedRepeat } from "./byte_automaton.ts";
import type { WrittenParts } from "./unordered_list.ts";

/** A node with a stack: one of the ways in which the text so far can be read. */
export interface Thread {
  readonly node: number;
  readonly frame: Frame;
  /** Rises with creation; equal threads are one object. */
  readonly id: number;
  /** The last search that came by. */
  stamp: number;
  /** The configuration that a search from here alone has found; undefined where there was none. */
  landed: object | null | undefined;
}

/** Counts above these are as good as infinite to the two views of a stack. */
export interface Horizons {
  readonly near: number;
  readonly far: number;
}

/** What all frames above one bottom share. */
interface Stacks {
  readonly horizons: Horizons;
  readonly repeats: readonly CountedRepeat[];
  /** Shared by all bottoms, so that threads of older ones that live on keep ids of their own. */
  readonly ids: { next: number };
  threads: number;
  frames: number;
}

/** Rounds that a counted repeat still must and may make. */
export interface RoundCounts {
  readonly toMin: number;
  readonly toMax: number;
}

const NO_NODE = -1;
const NO_REPEAT = -1;
const NO_LIST = -1;
/** Horizon beyond which every count lies. */
const NONE_FINITE = -1;
/** Groups of threads larger than this are not compared with each other. */
const MAX_GROUP = 64;
/** Frames of two stacks that are compared. */
const MAX_COMPARED = 64;

export class Frame {
  /** Undefined at the bottom. */
  readonly parent: Frame | undefined;
  readonly depth: number;
  /** Node to go back to, or -1 when it is a round's or list's frame or the bottom. */
  readonly back: number;
  /** The counted repeat whose round it is, or -1. */
  readonly repeat: number;
  /** Rounds that must come after this one. */
  readonly toMin: number;
  /** Rounds that may come after this one. */
  readonly toMax: number;
  /** The list in any order that it is in, or -1. */
  readonly list: number;
  /** What was written of the list before its current part. */
  readonly written: WrittenParts | undefined;
  /** This stack with counts beyond the near horizon made infinite: alike for all short texts. */
  readonly near: Frame;
  /** The same with the far horizon. */
  readonly far: Frame;
  /** This stack with all counts made infinite. */
  readonly shape: Frame;
  readonly #stacks: Stacks;
  #threads: Map<number, Thread> | undefined;
  #calls: Map<number, Frame> | undefined;
  #rounds: Map<string | number, Frame> | undefined;
  #lists: Map<string, Frame> | undefined;
  #nextRound: Frame | undefined;

  private constructor(stacks: Stacks, parent: Frame | undefined, content: FrameContent) {
    stacks.frames += 1;
    this.#stacks = stacks;
    this.parent = parent;
    this.depth = parent === undefined ? 0 : parent.depth + 1;
    this.back = content.back;
    this.repeat = content.repeat;
    this.toMin = content.toMin;
    this.toMax = content.toMax;
    this.list = content.list ?? NO_LIST;
    this.written = content.written;
    this.near = this.#alike(parent?.near, stacks.horizons.near);
    this.far = this.#alike(parent?.far, stacks.horizons.far);
    this.shape = this.#alike(parent?.shape, NONE_FINITE);
  }

  /**
   * An empty stack.
   *
   * @param repeats Whose rounds stacks will hold.
   * @param before An older bottom, whose threads may be met beside those of this one.
   */
  static bottom(
    horizons: Horizons,
    { repeats, before }: { readonly repeats: readonly CountedRepeat[]; readonly before?: Frame },
  ): Frame {
    const ids = before === undefined ? { next: 0 } : before.#stacks.ids;
    const stacks = { horizons, repeats, ids, threads: 0, frames: 0 };
    return new Frame(stacks, undefined, { back: NO_NODE, repeat: NO_REPEAT, toMin: 0, toMax: 0 });
  }

  /** Threads and frames of all stacks over this bottom. */
  get population(): { readonly threads: number; readonly frames: number } {
    return this.#stacks;
  }

  thread(node: number): Thread {
    this.#threads ??= new Map();
    let thread = this.#threads.get(node);
    if (thread === undefined) {
      this.#stacks.threads += 1;
      thread = { node, frame: this, id: this.#stacks.ids.next++, stamp: 0, landed: undefined };
      this.#threads.set(node, thread);
    }
    return thread;
  }

  /** This stack with a rule on top that will come back to a node. */
  call(back: number): Frame {
    this.#calls ??= new Map();
    let frame = this.#calls.get(back);
    if (frame === undefined) {
      frame = new Frame(this.#stacks, this, { back, repeat: NO_REPEAT, toMin: 0, toMax: 0 });
      this.#calls.set(back, frame);
    }
    return frame;
  }

  /** This stack with a round of a counted repeat on top. */
  round(repeat: number, { toMin, toMax }: RoundCounts): Frame {
    this.#rounds ??= new Map();
    const key = roundKey(repeat, toMin, toMax);
    let frame = this.#rounds.get(key);
    if (frame === undefined) {
      frame = new Frame(this.#stacks, this, { back: NO_NODE, repeat, toMin, toMax });
      this.#rounds.set(key, frame);
    }
    return frame;
  }

  /** This stack with a list in any order on top. */
  inList(list: number, written: WrittenParts): Frame {
    this.#lists ??= new Map();
    const key = `${list} ${written.key}`;
    let frame = this.#lists.get(key);
    if (frame === undefined) {
      const content = { back: NO_NODE, repeat: NO_REPEAT, toMin: 0, toMax: 0, list, written };
      frame = new Frame(this.#stacks, this, content);
      this.#lists.set(key, frame);
    }
    return frame;
  }

  /** The stack of the round after this one. Only where `toMax` allows it. */
  nextRound(): Frame {
    this.#nextRound ??= this.parent!.round(this.repeat, {
      toMin: Math.max(this.toMin - 1, 0),
      toMax: this.toMax - 1,
    });
    return this.#nextRound;
  }

  /** The frame of the rule that this stack is in, or the bottom. */
  get rule(): Frame {
    let frame: Frame = this;
    while (frame.repeat !== NO_REPEAT || frame.list !== NO_LIST) frame = frame.parent!;
    return frame;
  }

  /** What is above `below` of this stack, put onto another one. */
  moved(below: Frame, onto: Frame): Frame {
    const above: Frame[] = [];
    for (let frame: Frame = this; frame !== below; frame = frame.parent!) above.push(frame);
    return above.reduceRight((stack, frame) => stack.#push(frame), onto);
  }

  /**
   * Whether every text that completes the other stack, of the same shape, completes this one too.
   * Stacks that differ far below are not compared to the end: the answer is no.
   */
  covers(other: Frame): boolean {
    let [mine, its]: [Frame, Frame] = [this, other];
    for (let i = 0; i < MAX_COMPARED && mine !== its; i++) {
      if (mine.toMin > its.toMin || mine.toMax < its.toMax) return false;
      [mine, its] = [mine.parent!, its.parent!];
    }
    return mine === its;
  }

  #push(frame: Frame): Frame {
    if (frame.list !== NO_LIST) return this.inList(frame.list, frame.written!);
    return frame.repeat === NO_REPEAT ? this.call(frame.back) : this.round(frame.repeat, frame);
  }

  #alike(parent: Frame | undefined, horizon: number): Frame {
    if (parent === undefined) return this;
    const toMin = this.toMin > horizon ? Number.POSITIVE_INFINITY : this.toMin;
    const needed = this.#stacks.repeats[this.repeat]?.mostNeeded ?? 0;
    const most = horizon === NONE_FINITE ? horizon : horizon + needed;
    const toMax = this.toMax > most ? Number.POSITIVE_INFINITY : this.toMax;
    if (this.repeat === NO_REPEAT) return parent === this.parent ? this : parent.#push(this);
    const same = parent === this.parent && toMin === this.toMin && toMax === this.toMax;
    return same ? this : parent.round(this.repeat, { toMin, toMax });
  }
}

/** Counts below it, and infinity in its place, make a number as a key, which is quicker than a text. */
const SMALL_COUNT = 2 ** 14;

function roundKey(repeat: number, toMin: number, toMax: number): string | number {
  const least = toMin === Number.POSITIVE_INFINITY ? SMALL_COUNT : toMin;
  const most = toMax === Number.POSITIVE_INFINITY ? SMALL_COUNT : toMax;
  const isSmall =
    (least < SMALL_COUNT || least !== toMin) && (most < SMALL_COUNT || most !== toMax);
  if (!isSmall) return `${repeat},${toMin},${toMax}`;
  return (repeat * (SMALL_COUNT + 1) + least) * (SMALL_COUNT + 1) + most;
}

interface FrameContent extends RoundCounts {
  readonly back: number;
  readonly repeat: number;
  readonly list?: number | undefined;
  readonly written?: WrittenParts | undefined;
}

/** More threads than these are put in order to find two in the same place. */
const FEW_THREADS = 40;

/** Whether two of them are in the same place, and one of those counts. */
function mayCover(threads: readonly Thread[]): boolean {
  if (threads.every(({ frame }) => frame.shape === frame)) return false;
  if (threads.length > FEW_THREADS) {
    return new Set(threads.map(({ node }) => node)).size < threads.length;
  }
  for (let i = 1; i < threads.length; i++) {
    const { node } = threads[i]!;
    for (let j = 0; j < i; j++) if (threads[j]!.node === node) return true;
  }
  return false;
}

/** Leaves out threads that others with the same place and shape cover. */
export function withoutCovered(threads: Thread[]): Thread[] {
  if (!mayCover(threads)) return threads;
  const groups = new Map<Thread, Thread[]>();
  for (const thread of threads) {
    const shape = thread.frame.shape.thread(thread.node);
    const group = groups.get(shape);
    if (group === undefined) groups.set(shape, [thread]);
    else group.push(thread);
  }
  if (groups.size === threads.length) return threads;
  return [...groups.values()].flatMap((group) => {
    if (group.length > MAX_GROUP) return group;
    return group.filter(
      (thread) => !group.some((o) => o !== thread && o.frame.covers(thread.frame)),
    );
  });
}
