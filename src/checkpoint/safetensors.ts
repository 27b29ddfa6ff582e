/**
 * The safetensors file format: 8 bytes of header length (little endian), a JSON header, the data.
 *
 * Only the header is read here. Each tensor's byte range is checked against its shape, its
 * neighbours and the file's size, so that a read of a whole tensor can only fail in the source.
 *
 * @module
 */

import { CheckpointError } from "../errors.ts";
import { JsonScanner } from "./json_scanner.ts";
import type { SourceFile, TensorEntry, WeightSource } from "./source.ts";

/** Bytes of the length in front of the header. */
const LENGTH_BYTES = 8;

/** The format's own limit. */
export const MAX_HEADER_BYTES = 100_000_000;

/** Bits of an element. Tensors that no model asks for may have any of these. */
const ELEMENT_BITS: ReadonlyMap<string, number> = new Map([
  ["BOOL", 8],
  ["U8", 8],
  ["I8", 8],
  ["U16", 16],
  ["I16", 16],
  ["U32", 32],
  ["I32", 32],
  ["U64", 64],
  ["I64", 64],
  ["F4", 4],
  ["F6_E2M3", 6],
  ["F6_E3M2", 6],
  ["F8_E4M3", 8],
  ["F8_E5M2", 8],
  ["F8_E4M3FNUZ", 8],
  ["F8_E5M2FNUZ", 8],
  ["F8_E8M0", 8],
  ["F16", 16],
  ["BF16", 16],
  ["F32", 32],
  ["F64", 64],
  ["C64", 64],
]);

/**
 * Every tensor of a safetensors file, by name.
 *
 * @throws {CheckpointError} when the file is not exactly what the format promises: cut short,
 * longer than its tensors, with holes or overlaps between them, or with a damaged header.
 */
export async function readSafetensorsHeader(
  source: WeightSource,
  file: SourceFile,
): Promise<Map<string, TensorEntry>> {
  const length = await headerLength(source, file);
  const bytes = await source.read(file.name, LENGTH_BYTES, length);
  if (bytes[0] !== 0x7b) throw new CheckpointError(file.name, 'its header does not begin with "{"');
  const tensors = parseHeader(file.name, bytes);
  checkLayout(file, LENGTH_BYTES + length, tensors);
  return tensors;
}

async function headerLength(source: WeightSource, file: SourceFile): Promise<number> {
  if (file.size < LENGTH_BYTES) {
    const held = `it has ${file.size} bytes, fewer than the ${LENGTH_BYTES} of its header's length`;
    throw new CheckpointError(file.name, `weights not fully downloaded: ${held}`);
  }
  const bytes = await source.read(file.name, 0, LENGTH_BYTES);
  if (new TextDecoder().decode(bytes) === "version ") {
    throw new CheckpointError(file.name, "weights not fully downloaded: it is a Git LFS pointer");
  }
  const length = new DataView(bytes.buffer, bytes.byteOffset, LENGTH_BYTES).getBigUint64(0, true);
  if (length > BigInt(MAX_HEADER_BYTES)) {
    const limit = `over the limit of ${MAX_HEADER_BYTES}`;
    throw new CheckpointError(file.name, `its header is said to have ${length} bytes, ${limit}`);
  }
  if (Number(length) > file.size - LENGTH_BYTES) {
    const short = `it has ${file.size} bytes, its header alone ${LENGTH_BYTES + Number(length)}`;
    throw new CheckpointError(file.name, `weights not fully downloaded: ${short}`);
  }
  return Number(length);
}

function parseHeader(file: string, bytes: Uint8Array): Map<string, TensorEntry> {
  const tensors = new Map<string, TensorEntry>();
  const dataStart = LENGTH_BYTES + bytes.length;
  let tensor: string | undefined;
  try {
    const scanner = new JsonScanner(bytes);
    scanner.object((name) => {
      tensor = name;
      if (name === "__metadata__") {
        scanner.object(() => scanner.string());
      } else {
        const { dtype, shape, begin, end } = scanEntry(scanner);
        checkSize({ dtype, shape, bytes: end - begin });
        tensors.set(name, {
          file,
          dtype,
          shape,
          offset: dataStart + begin,
          byteLength: end - begin,
        });
      }
      tensor = undefined;
    });
    scanner.end();
  } catch (error) {
    const problem = error instanceof Error ? error.message : String(error);
    throw new CheckpointError(file, `its header is damaged: ${problem}`, tensor, { cause: error });
  }
  return tensors;
}

interface RawEntry {
  readonly dtype: string;
  readonly shape: readonly number[];
  /** Bytes from the start of the data. */
  readonly begin: number;
  readonly end: number;
}

function scanEntry(scanner: JsonScanner): RawEntry {
  let dtype: string | undefined;
  let shape: number[] | undefined;
  let offsets: number[] | undefined;
  scanner.object((field) => {
    if (field === "dtype") dtype = scanner.string();
    else if (field === "shape") shape = scanner.naturals();
    else if (field === "data_offsets") offsets = scanner.naturals();
    else throw new SyntaxError(`unknown field ${JSON.stringify(field)}`);
  });
  if (dtype === undefined) throw new SyntaxError('it has no "dtype"');
  if (shape === undefined) throw new SyntaxError('it has no "shape"');
  if (offsets === undefined) throw new SyntaxError('it has no "data_offsets"');
  const [begin, end] = offsets;
  if (begin === undefined || end === undefined || offsets.length !== 2) {
    throw new SyntaxError(`"data_offsets" has ${offsets.length} numbers instead of 2`);
  }
  if (begin > end) throw new SyntaxError(`"data_offsets" [${begin}, ${end}] run backwards`);
  return { dtype, shape, begin, end };
}

function checkSize(entry: { dtype: string; shape: readonly number[]; bytes: number }): void {
  const { dtype, shape, bytes } = entry;
  const bits = ELEMENT_BITS.get(dtype);
  if (bits === undefined) throw new SyntaxError(`unknown dtype ${JSON.stringify(dtype)}`);
  let total = bits;
  for (const size of shape) total *= size;
  if (total > Number.MAX_SAFE_INTEGER) throw new SyntaxError(`shape [${shape}] is too large`);
  if (total % 8 !== 0) throw new SyntaxError(`${dtype} [${shape}] ends inside a byte`);
  if (total / 8 !== bytes) {
    throw new SyntaxError(
      `${dtype} [${shape}] needs ${total / 8} bytes, its offsets span ${bytes}`,
    );
  }
}

/** The tensors must cover the data from its first byte to the file's last, each byte once. */
function checkLayout(
  file: SourceFile,
  dataStart: number,
  tensors: ReadonlyMap<string, TensorEntry>,
): void {
  const inOrder = [...tensors].sort(
    ([, a], [, b]) => a.offset - b.offset || a.byteLength - b.byteLength,
  );
  let covered = dataStart;
  let before = "";
  for (const [name, { offset, byteLength }] of inOrder) {
    if (offset < covered) {
      throw new CheckpointError(file.name, `its data overlaps that of "${before}"`, name);
    }
    if (offset > covered) {
      const hole = `${offset - covered} bytes before its data belong to no tensor`;
      throw new CheckpointError(file.name, hole, name);
    }
    covered = offset + byteLength;
    if (covered > file.size) {
      const short = `its data ends at byte ${covered}, the file at byte ${file.size}`;
      throw new CheckpointError(file.name, `weights not fully downloaded: ${short}`, name);
    }
    before = name;
  }
  if (covered < file.size) {
    const rest = `${file.size - covered} bytes after the last tensor belong to no tensor`;
    throw new CheckpointError(file.name, rest);
  }
}
