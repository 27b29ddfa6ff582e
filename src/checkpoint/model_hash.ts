/**
 * A short name for a checkpoint's weights, told apart without reading them all.
 *
 * @module
 */
import type { Checkpoint } from "./checkpoint.ts";
import { readText } from "./json_file.ts";

/** Tensors whose first bytes are looked at, spread over all of them. */
const SAMPLES = 48;
/** Of all tensors from one sample to the next: no period, as layers have one. */
const STEP = (Math.sqrt(5) - 1) / 2;
const SAMPLE_BYTES = 256;
/** Of 64: as unlikely to be the same by chance as a UUID. */
const DIGITS = 32;

/**
 * The hash of config.json, of every tensor's name, dtype and shape, and of the first bytes of some
 * tensors. It does not depend on how tensors are spread over files. Weights that differ only where
 * the hash does not look have the same hash: it guards against mistakes, not against forgery.
 *
 * @returns Hexadecimal digits.
 */
export async function modelHash({ source, tensors }: Checkpoint): Promise<string> {
  const sorted = [...tensors].sort(([a], [b]) => (a < b ? -1 : 1));
  const listing = sorted.map(([name, { dtype, shape }]) => [name, dtype, shape]);
  const texts = [await readText(source, "config.json"), JSON.stringify(listing)];
  const parts: Uint8Array[] = texts.map((text) => new TextEncoder().encode(text));
  const samples = sampledOf(sorted).map(([, { file, offset, byteLength }]) =>
    source.read(file, offset, Math.min(byteLength, SAMPLE_BYTES)),
  );
  for (const sample of await Promise.all(samples)) parts.push(sample);
  const joined = new Uint8Array(await new Blob(parts as BlobPart[]).arrayBuffer());
  const digest = new Uint8Array(await crypto.subtle.digest("SHA-256", joined));
  const digits = Array.from(digest, (byte) => byte.toString(16).padStart(2, "0"));
  return digits.join("").slice(0, DIGITS);
}

function sampledOf<T>(all: readonly T[]): readonly T[] {
  if (all.length <= SAMPLES) return all;
  const places = Array.from({ length: SAMPLES }, (_, i) => (i * STEP) % 1);
  return places.map((place) => all[Math.floor(place * all.length)]!);
}
