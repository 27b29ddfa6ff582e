/**
 * The text of a request's prompt, so far as it tells which requests begin alike.
 *
 * @module
 */

/** UTF-16 units that are looked at: two prompts that agree so far agree in all that matters. */
export const MAX_PROMPT_TEXT = 2 ** 18;

/** Texts, ids, messages and parts of messages that are looked at. */
const MAX_PARTS = 2 ** 16;

/** Texts that are put together up to the limits. */
class Joined {
  #text = "";
  #looks = 0;

  get text(): string {
    return this.#text;
  }

  /** Takes note of a part. @returns Whether it is to be looked at. */
  looksOn(): boolean {
    this.#looks += 1;
    return this.#looks <= MAX_PARTS && this.#text.length < MAX_PROMPT_TEXT;
  }

  add(part: string): void {
    const space = this.#text === "" ? "" : " ";
    this.#text += space + part.slice(0, MAX_PROMPT_TEXT);
    if (this.#text.length > MAX_PROMPT_TEXT) this.#text = this.#text.slice(0, MAX_PROMPT_TEXT);
  }
}

/**
 * @param body The parsed body of an endpoint that generates, of any form: what is wrong with it, the
 * worker says.
 */
export function promptText(body: unknown): string {
  const { text, prompt, input_ids, system, instructions, messages, input } = fieldsOf(body);
  const joined = new Joined();
  const first = [text, prompt, input_ids].find((value) => value !== undefined && value !== null);
  if (first !== undefined) addPrompt(joined, first);
  else {
    addContent(joined, system ?? instructions);
    addMessages(joined, messages ?? (typeof input === "string" ? [{ content: input }] : input));
  }
  return joined.text;
}

function fieldsOf(value: unknown): Readonly<Record<string, unknown>> {
  return typeof value === "object" && value !== null ? (value as Record<string, unknown>) : {};
}

function addMessages(joined: Joined, messages: unknown): void {
  if (!Array.isArray(messages)) return;
  for (const message of messages) {
    if (!joined.looksOn()) return;
    addContent(joined, fieldsOf(message).content);
  }
}

/** A text, ids, or a list of either. */
function addPrompt(joined: Joined, value: unknown): void {
  for (const item of Array.isArray(value) ? value : [value]) {
    if (!joined.looksOn()) return;
    if (!Array.isArray(item)) addItem(joined, item);
    else addIds(joined, item);
  }
}

/** Lists of prompts are no deeper: what is, the worker refuses. */
function addIds(joined: Joined, ids: readonly unknown[]): void {
  for (const id of ids) {
    if (!joined.looksOn()) return;
    addItem(joined, id);
  }
}

function addItem(joined: Joined, item: unknown): void {
  if (typeof item === "string") joined.add(item);
  else if (typeof item === "number") joined.add(String(item));
}

function addContent(joined: Joined, content: unknown): void {
  for (const part of Array.isArray(content) ? content : [content]) {
    if (!joined.looksOn()) return;
    addItem(joined, typeof part === "string" ? part : fieldsOf(part).text);
  }
}
