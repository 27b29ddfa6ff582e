/**
 * The checksum of a file, computed as its bytes come: SHA-256, or the SHA-1 of a git blob, which is
 * what hubs know of small files. WebCrypto wants all bytes at once.
 *
 * @module
 */

import { sha1 } from "@noble/hashes/legacy.js";
import { sha256 } from "@noble/hashes/sha2.js";
import { bytesToHex } from "@noble/hashes/utils.js";

const GIT_DIGITS = 40;

export class FileDigest {
  readonly kind: "SHA-256" | "git SHA-1";
  /** Bytes that have come. */
  length = 0;
  readonly #hash: { update(bytes: Uint8Array): unknown; digest(): Uint8Array };

  /**
   * @param size Bytes of the whole file.
   * @param expected Says by its length which checksum is wanted. Default SHA-256.
   */
  constructor(size: number, expected?: string) {
    const isGitBlob = expected?.length === GIT_DIGITS;
    this.kind = isGitBlob ? "git SHA-1" : "SHA-256";
    this.#hash = isGitBlob ? sha1.create() : sha256.create();
    if (isGitBlob) this.#hash.update(new TextEncoder().encode(`blob ${size}\0`));
  }

  update(bytes: Uint8Array): void {
    this.#hash.update(bytes);
    this.length += bytes.length;
  }

  /** Of all bytes, hexadecimal. No more may come. */
  finish(): string {
    return bytesToHex(this.#hash.digest());
  }
}

/** Adds files in order, in pieces small enough for memory. */
export async function digestFiles(
  digest: FileDigest,
  files: readonly Blob[],
  { signal, onLength }: { signal?: AbortSignal | undefined; onLength?: (bytes: number) => void },
): Promise<void> {
  for (const file of files) {
    for (let at = 0; at < file.size; at += PIECE_BYTES) {
      signal?.throwIfAborted();
      const piece = file.slice(at, Math.min(at + PIECE_BYTES, file.size));
      digest.update(new Uint8Array(await piece.arrayBuffer()));
      onLength?.(digest.length);
    }
  }
}

const PIECE_BYTES = 4 * 2 ** 20;
