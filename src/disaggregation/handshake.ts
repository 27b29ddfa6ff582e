/**
 * How two servers find out that they belong together: both know the group's key, which neither
 * says, and pages of one are those of the other, to the bit.
 *
 * @module
 */
import { hmac } from "@noble/hashes/hmac.js";
import { sha256 } from "@noble/hashes/sha2.js";
import { bytesToHex, utf8ToBytes } from "@noble/hashes/utils.js";
import type { PageLayout } from "../cache/page_header.ts";
import { contentsOf } from "../cache/prefix_block.ts";
import type { TravellingPrompt } from "../engine/transfer/page_routes.ts";
import type { DisaggregatedSide } from "../errors.ts";

const NONCE_BYTES = 16;

export function newNonce(): string {
  return bytesToHex(crypto.getRandomValues(new Uint8Array(NONCE_BYTES)));
}

/** What the two ends of a connection have drawn. */
export interface Nonces {
  readonly decode: string;
  readonly prefill: string;
}

/** What only an end that knows the key can say. */
export function proofOf(key: string, side: DisaggregatedSide, nonces: Nonces): string {
  const said = `wisp pages ${side} ${nonces.decode} ${nonces.prefill}`;
  return bytesToHex(hmac(sha256, utf8ToBytes(key), utf8ToBytes(said)));
}

/** Whether a proof is right; it takes as long for every wrong one. */
export function isProof(given: string, right: string): boolean {
  let difference = given.length ^ right.length;
  for (let i = 0; i < right.length; i++) {
    difference |= (given.charCodeAt(i) | 0) ^ right.charCodeAt(i);
  }
  return difference === 0;
}

/** Tells a prompt from every other one. */
export function promptDigest({ tokens, contents }: TravellingPrompt): string {
  const hash = sha256.create();
  hash.update(new Uint8Array(Uint32Array.from(tokens).buffer));
  hash.update(contentsOf(contents, 0, tokens.length));
  return `${tokens.length}:${bytesToHex(hash.digest())}`;
}

const COMPARED = {
  modelHash: "weights",
  numerics: "arithmetic",
  dtype: "cache dtype",
  entryWidth: "width of a cache entry",
  layers: "number of layers",
} as const satisfies Record<ComparedField, string>;

/** Pages are cut and joined where they come, so their size may differ. */
type ComparedField = Exclude<keyof PageLayout, "pageSize">;

/** What of a decode server's pages is not as those of a prefill server, in a sentence. */
export function differenceOf(prefill: PageLayout, decode: Partial<PageLayout>): string | undefined {
  for (const [field, name] of Object.entries(COMPARED) as [ComparedField, string][]) {
    if (prefill[field] === decode[field]) continue;
    const shown = (value: unknown) => String(JSON.stringify(value)).slice(0, 500);
    return `the prefill server's ${name} is ${shown(prefill[field])}, the decode server's ${shown(decode[field])}`;
  }
  return undefined;
}
