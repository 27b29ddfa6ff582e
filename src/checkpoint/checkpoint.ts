/**
 * A checkpoint folder opened for reading: which tensors there are, whether they are the ones a
 * model wants, and their bytes in bounded chunks.
 *
 * @module
 */

import { DTYPE_BYTES } from "../dtype.ts";
import { CheckpointError } from "../errors.ts";
import { isJsonObject, readJson } from "./json_file.ts";
import { cut, type Piece, readPiece, type Transfer, transferBytes } from "./pieces.ts";
import { readSafetensorsHeader } from "./safetensors.ts";
import type { SourceFile, TensorEntry, WeightSource } from "./source.ts";
import type { WeightSpec } from "./weight_spec.ts";

const SINGLE_FILE = "model.safetensors";
const INDEX_FILE = "model.safetensors.index.json";

/** Large enough that a read's fixed cost does not show, small enough to hold two of them. */
const DEFAULT_CHUNK_BYTES = 4 * 1024 * 1024;

/** Names spelled out in one message. */
const NAMES_SHOWN = 5;

export interface CheckOptions {
  /** Tensors that are known, not wanted and passed over. */
  readonly ignored?: (name: string) => boolean;
}

export interface WeightProgress {
  /** Tensor whose bytes came last. */
  readonly tensor: string;
  readonly loadedBytes: number;
  readonly totalBytes: number;
}

export interface WeightLoadOptions {
  /** Called after each chunk has been written. */
  readonly onProgress?: (progress: WeightProgress) => void;
  /** Looked at between chunks; `load` then rejects with its reason. */
  readonly signal?: AbortSignal;
  /**
   * Bytes read at once, rounded down to whole rows but never below one row.
   *
   * @default 4194304
   */
  readonly chunkBytes?: number;
}

export class Checkpoint {
  readonly source: WeightSource;
  /** Every tensor the checkpoint lists. */
  readonly tensors: ReadonlyMap<string, TensorEntry>;
  /** The file that says which tensors there are, for messages. */
  readonly #listing: string;

  private constructor(
    source: WeightSource,
    listing: string,
    tensors: ReadonlyMap<string, TensorEntry>,
  ) {
    this.source = source;
    this.tensors = tensors;
    this.#listing = listing;
  }

  /**
   * Reads and checks every header; no weights yet.
   *
   * @throws {CheckpointError} when files are missing, cut short, damaged or contradict the index.
   */
  static async open(source: WeightSource): Promise<Checkpoint> {
    const known = await source.tensors?.();
    if (known !== undefined) return new Checkpoint(source, source.name, known);
    const files = new Map((await source.list()).map((file) => [file.name, file]));
    const single = files.get(SINGLE_FILE);
    if (single !== undefined) {
      return new Checkpoint(source, SINGLE_FILE, await readSafetensorsHeader(source, single));
    }
    if (!files.has(INDEX_FILE)) {
      const missing = `${source.name} has neither ${SINGLE_FILE} nor ${INDEX_FILE}`;
      throw new CheckpointError(SINGLE_FILE, `weights not fully downloaded: ${missing}`);
    }
    return new Checkpoint(source, INDEX_FILE, await readShards(source, files));
  }

  /**
   * Compares the checkpoint with what a model wants, before a byte of it is loaded.
   *
   * @throws {CheckpointError} naming tensors that are missing, that have another shape or dtype, or
   * that the model does not want.
   */
  check(specs: readonly WeightSpec[], options: CheckOptions = {}): void {
    const missing = specs.filter(({ name, optional }) => !optional && !this.tensors.has(name));
    if (missing.length > 0)
      this.#refuse(
        "tensors are missing",
        missing.map(({ name }) => name),
      );
    for (const spec of specs) this.#transfer(spec);

    const wanted = new Set(specs.map(({ name }) => name));
    const unknown = [...this.tensors.keys()].filter(
      (name) => !wanted.has(name) && !isDerived(name) && !options.ignored?.(name),
    );
    if (unknown.length > 0) this.#refuse("the model has no use for tensors", unknown);
  }

  /**
   * Streams tensors into their destinations, in the order of `specs`, whatever the order of files
   * and of tensors in them. Nothing else is read, and of a slice its own bytes only. While one
   * chunk is written the next is read, so two chunks are held at a time: at most twice
   * `chunkBytes`, or twice the longest row where that is longer (of gpt-oss's stacked experts a row
   * is a whole expert, some 8 MB). What a destination collects before it lays it out comes on top.
   * Any tensor can be loaded again later.
   *
   * @throws {CheckpointError} before the first write when a tensor is missing or has another shape
   * or dtype; what the source or a destination throws passes through.
   */
  async load(specs: readonly WeightSpec[], options: WeightLoadOptions = {}): Promise<void> {
    const { onProgress, signal, chunkBytes = DEFAULT_CHUNK_BYTES } = options;
    if (!(chunkBytes > 0)) throw new RangeError(`Cannot load weights: chunkBytes is ${chunkBytes}`);
    const transfers = specs.map((spec) => this.#transfer(spec)).filter((one) => one !== undefined);
    const totalBytes = transfers.reduce((sum, transfer) => sum + transferBytes(transfer), 0);
    let loadedBytes = 0;

    const pieces = cut(transfers, chunkBytes);
    signal?.throwIfAborted();
    let ahead = this.#readNext(pieces);
    while (ahead !== undefined) {
      const { piece, reading } = ahead;
      const bytes = await reading;
      signal?.throwIfAborted();
      ahead = this.#readNext(pieces);
      // When the write below fails no caller awaits this read any more; its failure is not news
      // then.
      ahead?.reading.catch(() => {});
      const { spec, dtype, rowStart, rows } = piece;
      if (rows > 0) await spec.destination.write({ dtype, rowStart, rows, bytes });
      if (piece.last) await spec.destination.finish?.();
      loadedBytes += bytes.length;
      onProgress?.({ tensor: spec.name, loadedBytes, totalBytes });
    }
  }

  #readNext(pieces: Iterator<Piece, void>) {
    const next = pieces.next();
    if (next.done) return undefined;
    return { piece: next.value, reading: readPiece(this.source, next.value) };
  }

  /** The tensor that a spec means, or undefined when it is optional and not there. */
  #transfer(spec: WeightSpec): Transfer | undefined {
    const { name, shape, dtypes, optional } = spec;
    const tensor = this.tensors.get(name);
    if (tensor === undefined) {
      if (optional) return undefined;
      throw new CheckpointError(this.#listing, "the tensor is missing", name);
    }
    const dtype = dtypes.find((one) => one === tensor.dtype);
    if (dtype === undefined) {
      const known = Object.hasOwn(DTYPE_BYTES, tensor.dtype) ? "" : "the unsupported ";
      const problem = `it has ${known}dtype ${tensor.dtype}, the model wants ${dtypes.join(" or ")}`;
      throw new CheckpointError(tensor.file, problem, name);
    }
    if (shape.length !== tensor.shape.length || shape.some((size, i) => size !== tensor.shape[i])) {
      const problem = `it has shape [${tensor.shape.join(", ")}], the model wants [${shape.join(", ")}]`;
      throw new CheckpointError(tensor.file, problem, name);
    }
    return { spec, tensor, dtype };
  }

  #refuse(problem: string, names: readonly string[]): never {
    const shown = names.slice(0, NAMES_SHOWN).join(", ");
    const rest = names.length > NAMES_SHOWN ? ` and ${names.length - NAMES_SHOWN} more` : "";
    throw new CheckpointError(this.#listing, `${problem}: ${shown}${rest}`, names[0]);
  }
}

/** Buffers that some exporters save although the config determines them. */
function isDerived(name: string): boolean {
  return name.endsWith(".rotary_emb.inv_freq");
}

/** The tensors of every shard that the index lists; a shard may hold more than those. */
async function readShards(
  source: WeightSource,
  files: ReadonlyMap<string, SourceFile>,
): Promise<Map<string, TensorEntry>> {
  const shards = await readIndex(source);
  const missing = [...shards.keys()].filter((shard) => !files.has(shard)).sort();
  if (missing.length > 0) {
    throw new CheckpointError(
      INDEX_FILE,
      `weights not fully downloaded: missing ${missing.join(", ")}`,
    );
  }
  const tensors = new Map<string, TensorEntry>();
  for (const [shard, names] of shards) {
    const held = await readSafetensorsHeader(source, files.get(shard)!);
    for (const name of names) {
      const tensor = held.get(name);
      if (tensor === undefined) {
        throw new CheckpointError(shard, `${INDEX_FILE} says it is here, but it is not`, name);
      }
      tensors.set(name, tensor);
    }
  }
  return tensors;
}

/** Names of the tensors in each shard. */
async function readIndex(source: WeightSource): Promise<Map<string, string[]>> {
  const index = await readJson(source, INDEX_FILE);
  const weightMap = isJsonObject(index) ? index.weight_map : undefined;
  if (!isJsonObject(weightMap)) {
    throw new CheckpointError(INDEX_FILE, "it has no object of this name", "weight_map");
  }
  const shards = new Map<string, string[]>();
  for (const [name, shard] of Object.entries(weightMap)) {
    if (typeof shard !== "string") {
      throw new CheckpointError(INDEX_FILE, "its shard is not a string", name);
    }
    const names = shards.get(shard);
    if (names === undefined) shards.set(shard, [name]);
    else names.push(name);
  }
  return shards;
}
