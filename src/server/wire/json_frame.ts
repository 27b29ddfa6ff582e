/**
 * JSON of objects that differ in one text only: what is around it is written once.
 *
 * @module
 */
import { JsonText } from "../../http/event_stream.ts";

export class JsonFrame {
  readonly #before: string;
  readonly #behind: string;

  /** @param around Makes the object with a text in it, always the same but for the text. */
  constructor(around: (text: string) => object) {
    const empty = JSON.stringify(around(""));
    // What clients have chosen is in it as well, so that any mark may be there already.
    let mark = "text";
    while (empty.includes(mark)) mark += ".";
    const [before, behind] = JSON.stringify(around(mark)).split(`"${mark}"`);
    this.#before = before!;
    this.#behind = behind!;
  }

  /** What `JSON.stringify` would write of the object with this text. */
  write(text: string): JsonText {
    return new JsonText(this.#before + JSON.stringify(text) + this.#behind);
  }
}
