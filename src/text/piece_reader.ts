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
  /** Kept apart: joined, they would be copied with every piece that comes. */
  readonly #pieces: string[] = [];
  /** Position of the first character of each. */
  readonly #starts: number[] = [];
  /** Number of the piece that the next character is in, or all of them. */
  #current = 0;
  #position = 0;
  #length = 0;
  #ended = false;
  #examined = 0;

  add(text: string): void {
    if (text === "") return;
    this.#pieces.push(text);
    this.#starts.push(this.#length);
    this.#length += text.length;
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
    return this.#ended && this.#position === this.#length;
  }

  /** Characters that were looked at, each as often as it was. */
  get examined(): number {
    return this.#examined;
  }

  /** Goes back, to no further than where `forget` was called last. */
  rewind(position: number): void {
    this.#position = position;
    this.#current = this.#pieceAt(position);
  }

  /** Lets go of what has been read. */
  forget(): void {
    this.#settle();
    // Not piece by piece: all that remain are moved.
    if (this.#current * 2 < this.#pieces.length) return;
    this.#pieces.splice(0, this.#current);
    this.#starts.splice(0, this.#current);
    this.#current = 0;
  }

  /** What was read since a position. */
  textSince(position: number): string {
    let text = "";
    for (let i = this.#pieceAt(position); i < this.#pieces.length; i++) {
      const start = this.#starts[i]!;
      if (start >= this.#position) break;
      text += this.#pieces[i]!.slice(Math.max(0, position - start), this.#position - start);
    }
    return text;
  }

  /** The next character, which stays unread; undefined at the end of the text. */
  *peek(): Reading<string | undefined> {
    while (this.#position === this.#length) {
      if (this.#ended) return undefined;
      yield;
    }
    this.#settle();
    this.#examined++;
    return this.#pieces[this.#current]![this.#position - this.#starts[this.#current]!];
  }

  /** Takes the character that was peeked at. */
  skip(): void {
    this.#position++;
  }

  /** Takes what is here, without waiting. */
  takeAll(): string {
    const start = this.#position;
    this.#position = this.#length;
    return this.textSince(start);
  }

  /** Takes what is here, without waiting, up to the first of the characters, which stays unread. */
  takeUntil(characters: RegExp): string {
    this.#settle();
    let taken = "";
    for (; this.#current < this.#pieces.length; this.#current++) {
      const piece = this.#pieces[this.#current]!.slice(
        this.#position - this.#starts[this.#current]!,
      );
      const found = piece.search(characters);
      const length = found < 0 ? piece.length : found;
      this.#examined += length;
      this.#position += length;
      taken += piece.slice(0, length);
      if (found >= 0) break;
    }
    return taken;
  }

  /** Takes `text` if it is next, or the part of it that the end of the text leaves, else nothing. */
  *take(text: string): Reading<boolean> {
    const start = this.#position;
    this.#settle();
    const from = start - (this.#starts[this.#current] ?? 0);
    const piece = this.#pieces[this.#current] ?? "";
    if (piece.length - from >= text.length) {
      const isNext = piece.startsWith(text, from);
      this.#examined += isNext ? text.length : 1;
      if (isNext) this.#position += text.length;
      return isNext;
    }
    for (let i = 0; i < text.length; i++) {
      if ((yield* this.peek()) !== text[i]) {
        if (!this.atEnd) this.rewind(start);
        return false;
      }
      this.skip();
    }
    return true;
  }

  /** Makes the current piece the one of the next character. */
  #settle(): void {
    while (this.#current < this.#pieces.length) {
      const end = this.#starts[this.#current]! + this.#pieces[this.#current]!.length;
      if (this.#position < end) return;
      this.#current++;
    }
  }

  /** Number of the piece with the character at a position that is not ahead of the current piece. */
  #pieceAt(position: number): number {
    let piece = Math.min(this.#current, this.#pieces.length - 1);
    while (piece > 0 && this.#starts[piece]! > position) piece--;
    return Math.max(0, piece);
  }

  /** Takes characters as long as they match. */
  *takeWhile(pattern: RegExp): Reading<string> {
    let taken = "";
    while ((yield* this.peek()) !== undefined) {
      const piece = this.#pieces[this.#current]!;
      const from = this.#position - this.#starts[this.#current]!;
      let to = from;
      while (to < piece.length && pattern.test(piece[to]!)) to++;
      this.#examined += to - from;
      this.#position += to - from;
      taken += piece.slice(from, to);
      if (to < piece.length) break;
    }
    return taken;
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
