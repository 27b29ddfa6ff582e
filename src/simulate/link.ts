/**
 * What ranks take to bring bytes together: a latency, and bytes through a link of so many a second.
 *
 * @module
 */
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
