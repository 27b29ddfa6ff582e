/**
 * Changes to a safetensors file: its length, its header, the places of its tensors.
 *
 * @module
 */
import { Fields, Raw, toFields, writeJson } from "./json_text.ts";
import { mutateJson } from "./mutate_json.ts";
import type { Random } from "./random.ts";

const LENGTH_BYTES = 8;

/** What the eight bytes in front say, whatever the header's length is. */
const LENGTHS = [
  ...[0n, 1n, 7n, 100_000_000n, 100_000_001n, 2n ** 31n, 2n ** 32n, 2n ** 53n, 2n ** 63n],
  2n ** 64n - 1n,
];

const SHAPES: readonly unknown[] = [
  ...[[], [0], [1, 1], [-1, -1], [0.5, 2], [2 ** 53 - 1, 2 ** 53 - 1, 0], [2 ** 32, 2 ** 32]],
  ...[[2 ** 26, 2 ** 27], Array(65).fill(1), Array(50_000).fill(1), "2", null],
  [new Raw("1e400"), 2],
];
const OFFSETS: readonly unknown[] = [
  ...[[0, 0], [4, 0], [0], [0, 1, 2], [-4, 0], [2 ** 53, 2 ** 53], [0, 2 ** 52], null],
];
const DTYPES: readonly unknown[] = ["F32", "F4", "I64", "F33", "", "__proto__", 4, null];

/** A safetensors file with one thing about it changed. */
export function mutateSafetensors(file: Uint8Array, random: Random): Uint8Array {
  const length = Number(new DataView(file.buffer, file.byteOffset).getBigUint64(0, true));
  const text = new TextDecoder().decode(file.subarray(LENGTH_BYTES, LENGTH_BYTES + length));
  const header = toFields(JSON.parse(text)) as Fields;
  const data = file.subarray(LENGTH_BYTES + length);
  switch (random.below(8)) {
    case 0:
      return joined(text, data, random.pick([...LENGTHS, BigInt(length - 1), BigInt(length + 1)]));
    case 1:
      return file.slice(0, random.below(Math.min(file.length, 2 * length)));
    case 2:
      return joined(text, random.oneIn(2) ? data.subarray(1) : new Uint8Array(data.length + 1));
    case 3:
      return joined(brokenText(text, random), data);
    case 4: {
      changeMetadata(header, random);
      return joined(writeJson(header), data);
    }
    case 5:
      return joined(writeJson(mutateJson(header, random)), data);
    default:
      changeTensor(header, random);
      return joined(writeJson(header), data);
  }
}

function joined(text: string, data: Uint8Array, said?: bigint): Uint8Array {
  const header = new TextEncoder().encode(text);
  const file = new Uint8Array(LENGTH_BYTES + header.length + data.length);
  new DataView(file.buffer).setBigUint64(0, said ?? BigInt(header.length), true);
  file.set(header, LENGTH_BYTES);
  file.set(data, LENGTH_BYTES + header.length);
  return file;
}

/** The text without, with another or with a further character. */
function brokenText(text: string, random: Random): string {
  const at = random.below(text.length);
  const put = random.pick(["", '"', "{", "}", "[", "\\", ",", "\0", "\ufeff", "9".repeat(400)]);
  return text.slice(0, at) + put + text.slice(at + random.below(2));
}

function changeMetadata({ entries }: Fields, random: Random): void {
  const value = random.pick<unknown>([
    ...["text", 5, null, new Fields([["a", 5]]), new Fields([["a", new Fields([])]])],
    new Fields(Array.from({ length: 5000 }, (_, i) => [`k${i}`, "v"] as const)),
    new Raw("[".repeat(100_000)),
    new Raw('{"a":'.repeat(100_000)),
  ]);
  entries.unshift(["__metadata__", value]);
}

function changeTensor({ entries }: Fields, random: Random): void {
  const tensors = entries.filter(([name]) => name !== "__metadata__");
  const [, tensor] = random.pick(tensors);
  const [, other] = random.pick(tensors);
  if (!(tensor instanceof Fields && other instanceof Fields)) return;
  const field = (name: string) => tensor.entries.find(([known]) => known === name)!;
  const offsets = field("data_offsets");
  switch (random.below(6)) {
    case 0:
      field("shape")[1] = random.pick(SHAPES);
      return;
    case 1:
      field("dtype")[1] = random.pick(DTYPES);
      return;
    case 2:
      offsets[1] = random.pick(OFFSETS);
      return;
    case 3:
      // Over another tensor, or a hole in front.
      offsets[1] = other.entries.find(([name]) => name === "data_offsets")![1];
      return;
    case 4:
      offsets[1] = (offsets[1] as number[]).map((one) => one + random.pick([-1, 1, 2 ** 20]));
      return;
    default:
      tensor.entries.push(random.pick([offsets, field("shape"), ["more", 1] as [string, unknown]]));
  }
}
