/**
 * Lists that grow from step to step, page tables and tokens, as they go to other ranks: whole the
 * first time, then only what is new. Which lists the other side keeps is decided on this side alone.
 *
 * @module
 */

/** A list as it is written down. */
export interface ListPart {
  /** The place where the other side keeps it. */
  readonly place: number;
  /** How much of it is there already; 0 begins another list in the place. */
  readonly from: number;
  readonly more: readonly number[];
}

interface Sent {
  readonly place: number;
  length: number;
  usedIn: number;
}

/** The side that has the lists. */
export class ListSender<Owner extends object> {
  /** In the order of their last use. */
  readonly #sent = new Map<Owner, Sent>();
  readonly #free: number[] = [];
  readonly #room: number;
  readonly #mustStay: (owner: Owner) => boolean;
  #places = 0;
  #step = 0;

  /**
   * @param room Lists that the other side keeps, more where a step has more.
   * @param mustStay Of lists that a later step needs as the object that they are there.
   */
  constructor(room: number, mustStay: (owner: Owner) => boolean = () => false) {
    this.#room = room;
    this.#mustStay = mustStay;
  }

  /** Begins a step: those of the steps before may make room for its lists. */
  beginStep(): void {
    this.#step += 1;
  }

  /** Those that the other side has, with their places. */
  *known(): IterableIterator<readonly [owner: Owner, place: number]> {
    for (const [owner, { place }] of this.#sent) yield [owner, place];
  }

  /** @param owner What the list is known by: the list itself, or what it belongs to. */
  write(owner: Owner, list: readonly number[]): ListPart {
    const known = this.#sent.get(owner);
    const sent = known ?? { place: this.#takePlace(), length: 0, usedIn: 0 };
    const from = sent.length <= list.length ? sent.length : 0;
    this.#sent.delete(owner);
    this.#sent.set(owner, sent);
    sent.length = list.length;
    sent.usedIn = this.#step;
    return { place: sent.place, from, more: list.slice(from) };
  }

  #takePlace(): number {
    if (this.#sent.size >= this.#room) {
      for (const [owner, { place, usedIn }] of this.#sent) {
        if (usedIn === this.#step) break;
        if (this.#mustStay(owner)) continue;
        this.#sent.delete(owner);
        this.#free.push(place);
        break;
      }
    }
    return this.#free.pop() ?? this.#places++;
  }
}

/** The other side. One object is one list, as long as it only grows. */
export class ListReceiver {
  readonly #lists: number[][] = [];

  read({ place, from, more }: ListPart): number[] {
    if (from === 0) {
      const list = [...more];
      this.#lists[place] = list;
      return list;
    }
    const list = this.#lists[place]!;
    for (const value of more) list.push(value);
    return list;
  }
}
