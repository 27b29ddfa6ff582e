/**
 * Whether an item that holds objects may become one that stands there already: members come in any
 * order, so that texts say nothing.
 *
 * @module
 */

/** Of a plain form: a string or its beginning, a number, a word or its beginning, or a sign. */
const PIECE = /"(?:[^"\\]|\\.)*"?|-?\d[\d.eE+-]*|-|[a-zA-Z]+|[\s\S]/gy;
const CLOSED = /^"(?:[^"\\]|\\.)*"$/;

interface OpenObject {
  readonly members: Readonly<Record<string, unknown>>;
  /** Keys that were written. */
  readonly written: Set<string>;
  /** The one whose value comes. */
  key: string | undefined;
}

interface OpenList {
  readonly items: readonly unknown[];
  /** Items that were begun. */
  count: number;
}

/**
 * Keys do not come twice here: a text that goes on without such keys is there for every beginning.
 *
 * @param item A value as `JSON.parse` gives it.
 * @param beginning In plain form.
 */
export function mayBecome(item: unknown, beginning: string): boolean {
  const pieces = beginning.match(PIECE) ?? [];
  const comparison = new Comparison(item);
  return pieces.every((piece, i) => comparison.agrees(piece, i === pieces.length - 1));
}

class Comparison {
  readonly #root: unknown;
  readonly #open: (OpenObject | OpenList)[] = [];

  constructor(root: unknown) {
    this.#root = root;
  }

  /** Whether the value has the piece at this place. */
  agrees(piece: string, isLast: boolean): boolean {
    const top = this.#open.at(-1);
    switch (piece) {
      case ",":
      case ":":
        return true;
      case "}":
        this.#open.pop();
        return top !== undefined && "members" in top && isWhole(top);
      case "]":
        this.#open.pop();
        return top !== undefined && "items" in top && top.count === top.items.length;
      default:
    }
    if (top !== undefined && "members" in top && top.key === undefined) return hasKey(top, piece);
    const value = this.#take(top);
    if (piece === "{") return this.#openObject(value);
    if (piece === "[") return this.#openList(value);
    return value !== undefined && isScalar(value, piece, isLast);
  }

  /** The value that comes next; undefined where there is none. */
  #take(top: OpenObject | OpenList | undefined): unknown {
    if (top === undefined) return this.#root;
    if ("items" in top) return top.items[top.count++];
    const { members, key } = top;
    top.key = undefined;
    return members[key!];
  }

  #openObject(value: unknown): boolean {
    if (typeof value !== "object" || value === null || Array.isArray(value)) return false;
    const members = value as Readonly<Record<string, unknown>>;
    this.#open.push({ members, written: new Set(), key: undefined });
    return true;
  }

  #openList(value: unknown): boolean {
    if (!Array.isArray(value)) return false;
    this.#open.push({ items: value, count: 0 });
    return true;
  }
}

function isWhole({ members, written }: OpenObject): boolean {
  return Object.keys(members).every((key) => written.has(key));
}

function hasKey(object: OpenObject, piece: string): boolean {
  const { members, written } = object;
  if (!CLOSED.test(piece)) {
    const keys = Object.keys(members).filter((key) => !written.has(key));
    return keys.some((key) => JSON.stringify(key).startsWith(piece));
  }
  const key = JSON.parse(piece) as string;
  written.add(key);
  object.key = key;
  return Object.hasOwn(members, key);
}

function isScalar(value: unknown, piece: string, isLast: boolean): boolean {
  if (typeof value === "object" && value !== null) return false;
  const text = JSON.stringify(value);
  if (!isLast || CLOSED.test(piece)) {
    return typeof value === "number" ? value === Number(piece) : text === piece;
  }
  if (typeof value !== "number") return text.startsWith(piece);
  return text.startsWith(piece) || mayBeginNumber(piece, text);
}

/** Whether what has this beginning may have the number's value: `1.5` may become `1.5e1`, which is 15. */
export function mayBeginNumber(beginning: string, number: string): boolean {
  if (Number.parseFloat(beginning) === Number.parseFloat(number)) return true;
  const [digits, others] = [digitsOf(beginning), digitsOf(number)];
  // Zero may have a sign.
  if (others === "") return digits === "";
  const hasSign = beginning.startsWith("-") === number.startsWith("-");
  return hasSign && others.padEnd(digits.length, "0").startsWith(digits);
}

/** From the first that is not zero on, without sign, point and exponent. */
function digitsOf(number: string): string {
  return number.replace(/[eE].*$/, "").replace(/^-?[0.]*|\./g, "");
}
