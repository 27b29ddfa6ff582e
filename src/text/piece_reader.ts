/**
 * Text that arrives in pieces, read as if all of it were there.
 *
 * A parser is a generator: where it has read everything so far, it yields, and goes on when there is
 * more. So it never sees where the text was cut, and its results cannot depend on it.
 *
 * @module
 */

/** Reading that may have to wait for text: each `yield` is a wait. */
export type Reading<T> = Generator<undefined, T, undefined>;

export class PieceReader {
  /** Text from `#begin` on; what is before it is forgotten. */
  #text = "";
  #begin = 0;
  #position = 0;
  #ended = false;

  add(text: string): void {
    this.#text += text;
  }

  /** No more text comes. */
  end(): void {
    this.#ended = true;
  }

  /** Where the next character is, counted from the beginning of the text. */
  get position(): number {
    return this.#position;
  }

  /** Whether the text is over and all of it is read. */
  get atEnd(): boolean {
    return this.#ended && this.#left === 0;
  }

  get #left(): number {
    return this.#begin + this.#text.length - this.#position;
  }

  /** Goes back, to no further than where `forget` was called last. */
  rewind(position: number): void {
    this.#position = position;
  }

  /** Lets go of what has been read. */
  forget(): void {
    this.#text = this.#text.slice(this.#position - this.#begin);
    this.#begin = this.#position;
  }

  /** What was read since a position. */
  textSince(position: number): string {
    return this.#text.slice(position - this.#begin, this.#position - this.#begin);
  }

  /** The next character, which stays unread; undefined at the end of the text. */
  *peek(): Reading<string | undefined> {
    while (this.#left === 0) {
      if (this.#ended) return undefined;
      yield;
    }
    return this.#text[this.#position - this.#begin];
  }

  /** Takes the character that was peeked at. */
  skip(): void {
    this.#position++;
  }

  /** Takes what is here, without waiting. */
  takeAll(): string {
    const taken = this.#text.slice(this.#position - this.#begin);
    this.#position += taken.length;
    return taken;
  }

  /** Takes what is here, without waiting, up to the first of the characters, which stays unread. */
  takeUntil(characters: RegExp): string {
    const here = this.#text.slice(this.#position - this.#begin);
    const found = here.search(characters);
    if (found < 0) return this.takeAll();
    this.#position += found;
    return here.slice(0, found);
  }

  /** Takes `text` if it is next, or the part of it that the end of the text leaves, else nothing. */
  *take(text: string): Reading<boolean> {
    const start = this.#position;
    for (const character of text.split("")) {
      if ((yield* this.peek()) !== character) {
        if (!this.atEnd) this.rewind(start);
        return false;
      }
      this.skip();
    }
    return true;
  }

  /** Takes characters as long as they match. */
  *takeWhile(pattern: RegExp): Reading<string> {
    let taken = "";
    for (;;) {
      const character = yield* this.peek();
      if (character === undefined || !pattern.test(character)) return taken;
      taken += character;
      this.skip();
    }
  }

  /** Takes white space and returns what follows it, unread. */
  *skipSpace(): Reading<string | undefined> {
    yield* this.takeWhile(SPACE);
    return yield* this.peek();
  }

  /** Takes what ends something, or the part of it that the end of the text leaves, else nothing. */
  *takeEnd(read: (reader: this) => Reading<boolean>): Reading<void> {
    const start = this.#position;
    if (!(yield* read(this)) && !this.atEnd) this.rewind(start);
  }

  /** Whether what `read` reads is next; nothing is taken. */
  *looksAt(read: (reader: this) => Reading<boolean>): Reading<boolean> {
    const start = this.#position;
    const found = yield* read(this);
    this.rewind(start);
    return found;
  }
}

export const SPACE = /\s/;

/** Runs a parser over text as it comes. */
export class Transducer<Event> {
  readonly #reader = new PieceReader();
  readonly #parsing: Reading<void>;
  #events: Event[] = [];
  readonly #join: (last: Event, next: Event) => Event | undefined;

  /**
   * @param parse Calls `emit` for each event, in order.
   * @param join Makes one event of two that follow each other, where that says the same.
   */
  constructor(
    parse: (reader: PieceReader, emit: (event: Event) => void) => Reading<void>,
    join: (last: Event, next: Event) => Event | undefined,
  ) {
    this.#join = join;
    this.#parsing = parse(this.#reader, (event) => this.#emit(event));
  }

  push(text: string): Event[] {
    this.#reader.add(text);
    return this.#run();
  }

  end(): Event[] {
    this.#reader.end();
    return this.#run();
  }

  #run(): Event[] {
    this.#parsing.next();
    const events = this.#events;
    this.#events = [];
    return events;
  }

  #emit(event: Event): void {
    const last = this.#events.at(-1);
    const joined = last && this.#join(last, event);
    if (joined === undefined) this.#events.push(event);
    else this.#events[this.#events.length - 1] = joined;
  }
}
