/**
 * The text of a request's prompt, so far as it tells which requests begin alike.
 *
 * @module
 */

/** UTF-16 units that are looked at: two prompts that agree so far agree in all that matters. */
export const MAX_PROMPT_TEXT = 2 ** 18;

/** Texts that are put together up to the limit. */
class Joined {
  #text = "";

  get isFull(): boolean {
    return this.#text.length >= MAX_PROMPT_TEXT;
  }

  get text(): string {
    return this.#text;
  }

  add(part: string): void {
    const space = this.#text === "" ? "" : " ";
    this.#text += space + part.slice(0, MAX_PROMPT_TEXT);
    if (this.isFull) this.#text = this.#text.slice(0, MAX_PROMPT_TEXT);
  }
}

/**
 * @param body The parsed body of `/generate`, `/v1/completions` or `/v1/chat/completions`, of any form:
 * what is wrong with it, the worker says.
 */
export function promptText(body: unknown): string {
  const { text, prompt, input_ids, messages } = fieldsOf(body);
  const joined = new Joined();
  const first = [text, prompt, input_ids].find((value) => value !== undefined && value !== null);
  if (first !== undefined) addPrompt(joined, first);
  else if (Array.isArray(messages)) {
    for (const message of messages) {
      if (joined.isFull) break;
      addContent(joined, fieldsOf(message).content);
    }
  }
  return joined.text;
}

function fieldsOf(value: unknown): Readonly<Record<string, unknown>> {
  return typeof value === "object" && value !== null ? { ...value } : {};
}

/** A text, ids, or a list of either. */
function addPrompt(joined: Joined, value: unknown): void {
  if (typeof value === "string") joined.add(value);
  else if (typeof value === "number") joined.add(String(value));
  else if (Array.isArray(value)) {
    for (const item of value) {
      if (joined.isFull) return;
      // Lists of prompts are no deeper; what is, the worker refuses.
      if (!Array.isArray(item)) addPrompt(joined, item);
      else for (const id of item) if (!joined.isFull && !Array.isArray(id)) addPrompt(joined, id);
    }
  }
}

function addContent(joined: Joined, content: unknown): void {
  if (typeof content === "string") joined.add(content);
  else if (Array.isArray(content)) {
    for (const part of content) {
      const { text } = fieldsOf(part);
      if (joined.isFull) return;
      if (typeof text === "string") joined.add(text);
    }
  }
}
