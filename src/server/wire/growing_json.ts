/**
 * JSON of values that only grow: what is written already is kept, and only what is new is written.
 *
 * Events that have all of an answer each would otherwise take a time that grows with its square.
 * Pieces are joined with `join`, which copies them into one string; `+` would link them, to be
 * walked through for every event.
 *
 * @module
 */

export class GrowingJsonText {
  #json = "";
  #length = 0;

  /** @param text All of it: it begins with what it was before. */
  write(text: string): string {
    // Half of a surrogate pair is written as an escape, and both together are not.
    const splitsPair = isHigh(text.charCodeAt(this.#length - 1));
    const kept = splitsPair ? "" : this.#json;
    const added = splitsPair ? text : text.slice(this.#length);
    this.#json = [kept, JSON.stringify(added).slice(1, -1)].join("");
    this.#length = text.length;
    return `"${this.#json}"`;
  }
}

export class GrowingJsonNumbers {
  #json = "";
  #length = 0;

  /** @param numbers All of them: they begin with what they were before. */
  write(numbers: readonly number[]): string {
    const added = numbers.slice(this.#length).join(",");
    if (added !== "") this.#json = this.#length === 0 ? added : [this.#json, added].join(",");
    this.#length = numbers.length;
    return `[${this.#json}]`;
  }
}

function isHigh(codeUnit: number): boolean {
  return codeUnit >= 0xd800 && codeUnit < 0xdc00;
}
