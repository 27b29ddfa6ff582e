/**
 * What ranks take to bring bytes together: a latency, and bytes through a link of so many a second.
 *
 * @module
 */
import { jsonExcess } from "../checkpoint/json_limits.ts";
import { InvalidRequestError } from "../errors.ts";
import type { ExchangeKind } from "../gpu/recorded_launch.ts";

interface LinkSpeed {
  /** Seconds of an exchange whatever it brings. */
  readonly latency: number;
  /** Bytes a second that a rank receives. */
  readonly bandwidth: number;
}

/** A speed for all exchanges, and others for some kinds. */
export interface Link extends LinkSpeed {
  readonly kinds?: Partial<Readonly<Record<ExchangeKind, LinkSpeed>>> | undefined;
}

/**
 * Seconds of an exchange to which each of `ranks` brings `bytes`, and of which each gets all: sums, too,
 * are brought whole, and added on the device.
 */
export function exchangeSeconds(
  link: Link,
  {
    kind,
    bytes,
    ranks,
  }: { readonly kind: ExchangeKind; readonly bytes: number; readonly ranks: number },
): number {
  if (ranks === 1) return 0;
  const { latency, bandwidth } = link.kinds?.[kind] ?? link;
  return latency + ((ranks - 1) * bytes) / bandwidth;
}

const KINDS = ["gather", "sum", "experts"] as const satisfies readonly ExchangeKind[];
const FIELDS = ["bandwidth", "latency"] as const;

/**
 * A link as `--link` has it: a rate, or an object with `bandwidth`, a rate, `latency`, in microseconds,
 * and the same of exchanges of a kind by its name. What a kind does not say is the link's.
 *
 * @param latency Seconds, where the text says nothing of it.
 * @throws {InvalidRequestError} saying what is wrong with the text.
 */
export function parseLink(text: string, latency: number): Link {
  const value = readObject(text);
  if (value === undefined) return { latency, bandwidth: rateOf(text) };
  requireKeys(value, [...FIELDS, ...KINDS], "it");
  if (value.bandwidth === undefined) throw problem("it has no bandwidth");
  const all = speedOf(value, { latency, bandwidth: 0 }, "");
  const kinds: Partial<Record<ExchangeKind, LinkSpeed>> = {};
  for (const kind of KINDS) {
    const own = value[kind];
    if (own === undefined) continue;
    if (!isObject(own)) throw problem(`${kind} is no object`);
    requireKeys(own, FIELDS, kind);
    kinds[kind] = speedOf(own, all, `${kind}.`);
  }
  return { ...all, kinds };
}

type JsonObject = Readonly<Record<string, unknown>>;

const problem = (state: string) => new InvalidRequestError(state, "link");

const isObject = (value: unknown): value is JsonObject =>
  typeof value === "object" && value !== null && !Array.isArray(value);

/** Undefined where the text is not to be JSON. */
function readObject(text: string): JsonObject | undefined {
  if (!text.trimStart().startsWith("{")) return undefined;
  const excess = jsonExcess(text);
  if (excess !== undefined) throw problem(excess);
  try {
    return JSON.parse(text);
  } catch (error) {
    throw problem(`it is no JSON: ${(error as Error).message}`);
  }
}

function requireKeys(value: JsonObject, keys: readonly string[], name: string): void {
  const unknown = Object.keys(value).find((key) => !keys.includes(key));
  if (unknown === undefined) return;
  throw problem(`${name} has "${unknown.slice(0, 80)}", not ${keys.join(", ")}`);
}

function speedOf({ bandwidth, latency }: JsonObject, others: LinkSpeed, name: string): LinkSpeed {
  if (latency !== undefined && !(typeof latency === "number" && latency >= 0)) {
    throw problem(`${name}latency is no number of microseconds, 0 or more`);
  }
  if (bandwidth !== undefined && typeof bandwidth !== "string") {
    throw problem(`${name}bandwidth is no rate in quotation marks`);
  }
  return {
    latency: latency === undefined ? others.latency : latency / 1e6,
    bandwidth: bandwidth === undefined ? others.bandwidth : rateOf(bandwidth),
  };
}

function rateOf(text: string): number {
  const rate = parseRate(text);
  if (rate !== undefined) return rate;
  throw problem("write a number and Gbit, Mbit, GB/s or MB/s");
}

const UNITS: Readonly<Record<string, number>> = {
  Gbit: 1e9 / 8,
  Mbit: 1e6 / 8,
  "GB/s": 1e9,
  "MB/s": 1e6,
};
const RATE = /^(\d{1,9}(?:\.\d{1,6})?)(Gbit|Mbit|GB\/s|MB\/s)$/;

/** Bytes a second of "400Gbit" or "50GB/s"; undefined where it is neither. */
export function parseRate(text: string): number | undefined {
  const [, number, unit] = RATE.exec(text) ?? [];
  if (number === undefined || unit === undefined) return undefined;
  const rate = Number(number) * UNITS[unit]!;
  return rate > 0 ? rate : undefined;
}
