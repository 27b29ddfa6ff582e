/**
 * Where a checkpoint's bytes come from: a folder, an HTTP server, memory.
 *
 * @module
 */

import type { TensorEntry } from "./safetensors.ts";

export interface SourceFile {
  readonly name: string;
  /** Bytes. */
  readonly size: number;
}

/** A flat folder of files that can be read in pieces. */
export interface WeightSource {
  /** Path or address, for messages. */
  readonly name: string;
  /** Every file there is. */
  list(): Promise<readonly SourceFile[]>;
  /**
   * Exactly `length` bytes of `file` from `offset`, in a buffer the caller owns.
   *
   * @throws {CheckpointError} when the file is missing or ends early.
   */
  read(file: string, offset: number, length: number): Promise<Uint8Array<ArrayBuffer>>;
  /**
   * Every tensor by its name, where the source knows them without an index and headers: as where it
   * is put together of several. Default: the files say it.
   */
  tensors?(): Promise<ReadonlyMap<string, TensorEntry>>;
  /** Lets go of what reading holds, such as open files. A later read takes it again. */
  close?(): Promise<void>;
}
