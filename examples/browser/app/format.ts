/**
 * Numbers as people read them.
 *
 * @module
 */

const UNITS = ["B", "kB", "MB", "GB", "TB"] as const;

/** Decimal units, three digits: "10.3 MB". */
export function formatBytes(bytes: number): string {
  const power = bytes < 1000 ? 0 : Math.min(Math.floor(Math.log10(bytes) / 3), UNITS.length - 1);
  const value = bytes / 1000 ** power;
  return `${power === 0 ? value : threeDigits(value)} ${UNITS[power]}`;
}

/** "0.42 s", "12.3 s", "4 min 10 s", "2 h 5 min". */
export function formatSeconds(seconds: number): string {
  if (seconds < 59.95) return `${threeDigits(seconds)} s`;
  const whole = Math.round(seconds);
  if (whole < 3600) return `${Math.floor(whole / 60)} min ${whole % 60} s`;
  return `${Math.floor(whole / 3600)} h ${Math.floor((whole % 3600) / 60)} min`;
}

export function formatRate(perSecond: number): string {
  return `${threeDigits(perSecond)} tokens/s`;
}

export function formatCount(count: number, one: string): string {
  return `${count.toLocaleString("en")} ${one}${count === 1 ? "" : "s"}`;
}

function threeDigits(value: number): string {
  return value < 10 ? value.toFixed(2) : value < 100 ? value.toFixed(1) : value.toFixed(0);
}
