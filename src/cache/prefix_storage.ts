/**
 * What a platform offers for cached prefixes that outlive the process: named blobs.
 *
 * Several processes, or tabs, may use the same place. Whatever is in it may be gone or changed at the
 * next call: the reader checks what came.
 *
 * @module
 */

export interface StoredBlob {
  readonly name: string;
  readonly byteLength: number;
  /** When it was written or last marked as used, in milliseconds since 1970. */
  readonly usedAt: number;
}

/** Names are 64 hexadecimal digits. Every method rejects with the platform's error when it fails. */
export interface PrefixStorage {
  /** Every whole blob, also those that other processes wrote, and no other file. */
  list(): Promise<readonly StoredBlob[]>;
  /** @returns `undefined` when there is none of this name. */
  read(name: string): Promise<Uint8Array<ArrayBuffer> | undefined>;
  /** Writes the parts behind each other. A reader gets meanwhile all of them, or what was there. */
  write(name: string, parts: readonly Uint8Array<ArrayBuffer>[]): Promise<void>;
  /** Names that are not there are none to delete. */
  delete(names: readonly string[]): Promise<void>;
  /** Takes note that blobs are used now, each a millisecond earlier than the one before it. */
  markUsed(names: readonly string[]): Promise<void>;
  /** Bytes that may be kept here when no option says how many. Default 1 GiB. */
  capacity?(): Promise<number>;
  /**
   * Whether a write failed for want of room, which deleting blobs makes. Default: that cannot be
   * told, and nothing is deleted for it.
   */
  isFull?(error: unknown): boolean;
}

/** Whether a platform's file of this name can be a blob. */
export function isBlobName(name: string): boolean {
  return /^[0-9a-f]{64}$/.test(name);
}
