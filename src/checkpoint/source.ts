/**
 * Where a checkpoint's bytes come from: a folder, an HTTP server, memory.
 *
 * @module
 */

export interface SourceFile {
  readonly name: string;
  /** Bytes. */
  readonly size: number;
}

/** Where one tensor lies. */
export interface TensorEntry {
  readonly file: string;
  /** As the file spells it; a `Dtype` or another of the format's element types. */
  readonly dtype: string;
  readonly shape: readonly number[];
  /** Bytes from the start of the file. */
  readonly offset: number;
  readonly byteLength: number;
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
