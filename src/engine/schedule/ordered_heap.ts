/**
 * A heap whose items can also be taken out of its middle.
 *
 * | what | cost |
 * |---|---|
 * | `first`, `has`, `size` | a look |
 * | `add`, `delete` | the logarithm of how many there are, in comparisons |
 *
 * @module
 */
export class OrderedHeap<T> {
  readonly #isBefore: (a: T, b: T) => boolean;
  readonly #items: T[] = [];
  /** Where each item stands in the list. */
  readonly #places = new Map<T, number>();

  /** @param isBefore Of two items never true both ways. */
  constructor(isBefore: (a: T, b: T) => boolean) {
    this.#isBefore = isBefore;
  }

  get size(): number {
    return this.#items.length;
  }

  /** The item that no other one is before. */
  get first(): T | undefined {
    return this.#items[0];
  }

  has(item: T): boolean {
    return this.#places.has(item);
  }

  /** Adds an item, once. */
  add(item: T): void {
    if (this.#places.has(item)) return;
    this.#items.push(item);
    this.#rise(this.#items.length - 1);
  }

  /** @returns Whether it was there. */
  delete(item: T): boolean {
    const place = this.#places.get(item);
    if (place === undefined) return false;
    this.#places.delete(item);
    const last = this.#items.pop()!;
    if (last === item) return true;
    this.#put(last, place);
    this.#sink(place);
    this.#rise(place);
    return true;
  }

  /** Every item, in no order. */
  values(): IterableIterator<T> {
    return this.#items.values();
  }

  #put(item: T, place: number): void {
    this.#items[place] = item;
    this.#places.set(item, place);
  }

  #rise(from: number): void {
    const item = this.#items[from]!;
    let place = from;
    while (place > 0) {
      const parent = (place - 1) >> 1;
      const above = this.#items[parent]!;
      if (!this.#isBefore(item, above)) break;
      this.#put(above, place);
      place = parent;
    }
    this.#put(item, place);
  }

  #sink(from: number): void {
    const item = this.#items[from]!;
    let place = from;
    for (;;) {
      let child = 2 * place + 1;
      if (child >= this.#items.length) break;
      const other = this.#items[child + 1];
      if (other !== undefined && this.#isBefore(other, this.#items[child]!)) child += 1;
      const below = this.#items[child]!;
      if (!this.#isBefore(below, item)) break;
      this.#put(below, place);
      place = child;
    }
    this.#put(item, place);
  }
}
