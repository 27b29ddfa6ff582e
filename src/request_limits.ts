/**
 * How much a request may say of each kind: lists whose items cost work for every token or every
 * request beside it. `docs/limits.md` has the table.
 *
 * @module
 */

/** Stop strings of a request. */
export const MAX_STOPS = 1024;
/** UTF-16 units of all of them together. */
export const MAX_STOP_UNITS = 16_384;
/** `stopTokenIds`, and names of special tokens that stay in the text. */
export const MAX_STOP_TOKENS = 1024;
/** Entries of `logitBias`. */
export const MAX_LOGIT_BIASES = 1024;
/** UTF-16 units of a constraint: of its JSON, its regular expression or its grammar. */
export const MAX_CONSTRAINT_UNITS = 2 ** 20;
/** UTF-16 units of the JSON of `tools`, and of `templateVariables`. */
export const MAX_TEMPLATE_UNITS = 2 ** 20;

/** Objects and arrays inside of each other in JSON that is walked through. */
export const MAX_JSON_DEPTH = 512;

/** Whether JSON nests deeper than it may. Of what is no JSON it says something or other. */
export function nestsTooDeep(json: string): boolean {
  if (json.length <= MAX_JSON_DEPTH) return false;
  let depth = 0;
  let isQuoted = false;
  for (let i = 0; i < json.length; i++) {
    const mark = json[i]!;
    if (isQuoted && mark === "\\") i++;
    else if (mark === '"') isQuoted = !isQuoted;
    else if (isQuoted) continue;
    else if (mark === "[" || mark === "{") depth++;
    else if (mark === "]" || mark === "}") depth--;
    if (depth > MAX_JSON_DEPTH) return true;
  }
  return false;
}

/** Whether stop strings are few and short enough; it looks at no more than may be there. */
export function areFewStops(stops: readonly string[]): boolean {
  if (stops.length > MAX_STOPS) return false;
  return stops.reduce((units, { length }) => units + length, 0) <= MAX_STOP_UNITS;
}

/** How a refusal of too many stop strings says what is allowed. */
export const STOPS_RULE = `at most ${MAX_STOPS} strings of ${MAX_STOP_UNITS} characters in all`;

/**
 * Whether the JSON of a value has more than so many UTF-16 units; of escapes, numbers and words one
 * is counted. It stops where that is certain, and works without recursion.
 */
export function isLongJson(value: unknown, units: number): boolean {
  const waiting = [value];
  let left = units;
  while (waiting.length > 0 && left >= 0) {
    const next = waiting.pop();
    if (typeof next === "string") {
      left -= next.length + 2;
    } else if (typeof next !== "object" || next === null) {
      left -= 1;
    } else {
      const names = Array.isArray(next) ? undefined : Object.keys(next);
      const items: readonly unknown[] =
        names === undefined ? (next as unknown[]) : Object.values(next);
      left -= 1 + Math.max(1, items.length);
      if (left < 0) return true;
      for (const name of names ?? []) left -= name.length + 3;
      for (const item of items) waiting.push(item);
    }
  }
  return left < 0;
}
