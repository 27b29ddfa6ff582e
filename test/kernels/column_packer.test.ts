import { existsSync, readFileSync } from "node:fs";
import { describe, expect, test } from "vitest";
import { ColumnPacker, type ColumnSlice } from "../../kernels/linear/column_packer.ts";
import { checkGroupOrder, packColumnScales } from "../../kernels/linear/column_scales.ts";
import { decodeF16, encodeBf16 } from "../../src/dtype.ts";
import { UnsupportedError } from "../../src/errors.ts";

const FILE = "../shared/data/golden/kernels.json";
const absent = !existsSync(FILE);
if (absent) console.warn(`skipped: ${FILE} is not here`);

/** Numbers in [0, 1), the same for the same seed. */
function seeded(seed: number): () => number {
  let state = seed >>> 0;
  return () => {
    state = (Math.imul(state, 1664525) + 1013904223) >>> 0;
    return (Math.imul(state ^ (state >>> 15), 0x2c1b3c6d) >>> 0) / 2 ** 32;
  };
}

const AWQ_ORDER = [0, 2, 4, 6, 1, 3, 5, 7];

/** `[K, N]` codes as a file has them: word by word, nibble by nibble. */
function packFile(packing: "awq" | "gptq", codes: readonly number[][]): Uint8Array<ArrayBuffer> {
  const [K, N] = [codes.length, codes[0]!.length];
  const words = new Uint32Array((K * N) / 8);
  words.forEach((_, i) => {
    for (let nibble = 0; nibble < 8; nibble++) {
      const code =
        packing === "awq"
          ? codes[Math.floor(i / (N / 8))]![(i % (N / 8)) * 8 + AWQ_ORDER[nibble]!]!
          : codes[Math.floor(i / N) * 8 + nibble]![i % N]!;
      words[i]! += code * 16 ** nibble;
    }
  });
  return new Uint8Array(words.buffer);
}

/** Code of output n and input k of a matrix laid out for the linear kernels. */
function codeAt(words: Uint32Array, lanes: number, columns: number, n: number, k: number): number {
  const granules = Math.ceil(columns / 128) * 4;
  const granule = (Math.floor(n / lanes) * granules + Math.floor(k / 32)) * lanes + (n % lanes);
  return (words[granule * 4 + Math.floor((k % 32) / 8)]! >>> (4 * (k % 8))) & 15;
}

interface Shape extends ColumnSlice {
  readonly lanes: number;
  readonly rowsPadded: number;
}

const POISON = 0x77777777;

/** All runs in a matrix that was full of sevens, cut as `random` says. */
function packed(shape: Shape, file: Uint8Array<ArrayBuffer>, random: () => number): Uint32Array {
  const { packing, lanes, sourceRows, sourceColumns, rowsPadded } = shape;
  const columns = shape.columns ?? sourceColumns - (shape.sourceColumn ?? 0);
  const words = new Uint32Array((rowsPadded * Math.ceil(columns / 128) * 128) / 8).fill(POISON);
  const packer = new ColumnPacker({ ...shape, lanes });
  const rowBytes = packing === "awq" ? sourceRows / 2 : sourceRows * 4;
  const most = 1 + Math.floor(random() * 70);
  for (let at = 0; at < file.length; ) {
    const length = Math.min((1 + Math.floor(random() * most)) * rowBytes, file.length - at);
    const shift = random() < 0.5 ? 0 : 1;
    const chunk = new Uint8Array(length + shift).subarray(shift);
    chunk.set(file.subarray(at, at + length));
    for (const run of packer.push(chunk)) words.set(run.words, run.byteOffset / 4);
    at += length;
  }
  return words;
}

describe.each(["awq", "gptq"] as const)("ColumnPacker of %s", (packing) => {
  test.each(Array.from({ length: 40 }, (_, i) => i + 1))("keeps every code (seed %i)", (seed) => {
    const random = seeded(seed * 77);
    const upTo = (n: number) => Math.floor(random() * n);
    const lanes = [4, 8, 16][upTo(3)]!;
    const sourceRows = packing === "awq" ? 8 * (1 + upTo(9)) : 1 + upTo(70);
    const sourceColumns = packing === "awq" ? 1 + upTo(330) : 8 * (1 + upTo(40));
    const sliced = random() < 0.6;
    const sourceRow = sliced ? upTo(sourceRows) : 0;
    const rows = sliced ? 1 + upTo(sourceRows - sourceRow) : sourceRows;
    const sourceColumn = sliced ? 32 * upTo(Math.ceil(sourceColumns / 32)) : 0;
    const columns = sliced ? 1 + upTo(sourceColumns - sourceColumn) : sourceColumns;
    const firstRow = lanes * upTo(3);
    const end = firstRow + Math.ceil(rows / lanes) * lanes;
    const shape: Shape = {
      packing,
      lanes,
      sourceRows,
      sourceColumns,
      sourceRow,
      rows,
      sourceColumn,
      firstRow,
      columns: packing === "awq" ? columns : Math.ceil(columns / 8) * 8,
      rowsPadded: end + lanes,
    };
    const codes = Array.from({ length: sourceColumns }, () =>
      Array.from({ length: sourceRows }, () => upTo(16)),
    );
    const words = packed(shape, packFile(packing, codes), random);
    const width = Math.ceil(shape.columns! / 128) * 128;
    let wrong = 0;
    for (let n = 0; n < shape.rowsPadded; n++) {
      for (let k = 0; k < width; k++) {
        const r = n - firstRow;
        const inside = n >= firstRow && n < end;
        const meant = r < rows && k < shape.columns!;
        const want = !inside ? 7 : meant ? codes[sourceColumn + k]![sourceRow + r]! : 0;
        if (codeAt(words, lanes, shape.columns!, n, k) !== want) wrong += 1;
      }
    }
    expect(wrong).toBe(0);
  });

  test("gives whole rows as one run, and pieces of them by groups", () => {
    const shape = { packing, lanes: 8, sourceRows: 24, sourceColumns: 128 } as const;
    const file = new Uint8Array((24 * 128) / 2);
    const runs = new ColumnPacker({ ...shape, firstRow: 8 }).push(file);
    expect(runs.map((run) => [run.byteOffset, run.words.length])).toEqual([[512, 384]]);
    const packer = new ColumnPacker(shape);
    expect(packer.push(file.subarray(0, file.length / 8))).toEqual([]);
    const first = packer.push(file.subarray(file.length / 8, file.length / 2));
    expect(first.map((run) => [run.byteOffset, run.words.length])).toEqual([
      [0, 64],
      [512, 64],
      [1024, 64],
    ]);
    const last = packer.push(file.subarray(file.length / 2));
    expect(last.map(({ byteOffset }) => byteOffset)).toEqual([256, 768, 1280]);
  });

  test("writes the scale words of a slice", () => {
    const [sourceRows, sourceColumns, rowsPadded] = [40, 320, 24] as const;
    const random = seeded(5);
    const groups = sourceColumns / 64;
    const zeros = Array.from({ length: groups }, () =>
      Array.from({ length: sourceRows }, () => Math.floor(random() * 16)),
    );
    const values = Array.from({ length: groups * sourceRows }, () => random() - 0.5);
    const stored = {
      BF16: Uint16Array.from(values, encodeBf16),
      // Subnormals too.
      F16: Uint16Array.from(values, (value) => Math.floor(Math.abs(value) * 2 * 0x7bff)),
      F32: Float32Array.from(values),
    };
    for (const scalesDtype of ["BF16", "F16", "F32"] as const) {
      const into = new Uint32Array(3 * rowsPadded).fill(1);
      const numbers = stored[scalesDtype];
      packColumnScales({
        packing,
        sourceRows,
        sourceColumns,
        scalesDtype,
        into,
        rowsPadded,
        // GPTQ's zero points are packed by output as well, in plain order.
        qzeros: packing === "awq" ? packFile("awq", zeros) : packZeros(zeros),
        scales: new Uint8Array(numbers.buffer),
        groupColumns: 64,
        sourceRow: 3,
        rows: 13,
        sourceColumn: 128,
        columns: 130,
        firstRow: 8,
      });
      for (let group = 0; group < 3; group++) {
        for (let r = 0; r < rowsPadded; r++) {
          const word = into[group * rowsPadded + r]!;
          if (r < 8 || r >= 21) {
            expect(word).toBe(1);
            continue;
          }
          const from = (2 + group) * sourceRows + 3 + r - 8;
          const scale = new Float32Array(Uint32Array.of(word & ~31).buffer)[0]!;
          const want =
            scalesDtype === "F16" ? decodeF16(stored.F16[from]!) : Math.fround(values[from]!);
          const allowed = { F16: 0, BF16: 2 ** -8, F32: 2 ** -19 }[scalesDtype];
          expect(Math.abs(scale - want)).toBeLessThanOrEqual(allowed * Math.abs(want));
          expect(word & 31).toBe(zeros[2 + group]![3 + r - 8]! + (packing === "gptq" ? 1 : 0));
        }
      }
    }
  });
});

function packZeros(zeros: readonly number[][]): Uint8Array {
  const words = zeros.flatMap((row) =>
    Array.from({ length: row.length / 8 }, (_, i) =>
      row.slice(i * 8, i * 8 + 8).reduce((word, zero, nibble) => word + zero * 16 ** nibble, 0),
    ),
  );
  return new Uint8Array(Uint32Array.from(words).buffer);
}

describe("ColumnPacker", () => {
  const shape = { packing: "gptq", lanes: 8, sourceRows: 8, sourceColumns: 64 } as const;

  test.each([
    ["row 4 is not a multiple of 8", { firstRow: 4 }],
    ["column 16 is not a multiple of 32", { sourceColumn: 16 }],
    ["words of awq cannot hold 12x64 codes", { packing: "awq", sourceRows: 12 }],
    ["words of gptq cannot hold 8x60 codes", { sourceColumns: 60 }],
    ["the slice does not lie in 8x64", { sourceRow: 2, rows: 7 }],
  ] as const)("refuses: %s", (message, other) => {
    expect(() => new ColumnPacker({ ...shape, ...other })).toThrow(message);
  });

  test("refuses bytes that are not whole file rows", () => {
    const push = () => new ColumnPacker(shape).push(new Uint8Array(36));
    expect(push).toThrow("36 bytes are not whole rows of 8 words");
  });
});

test("packColumnScales refuses a slice that cuts a group", () => {
  const slice = { packing: "awq", sourceRows: 8, sourceColumns: 128, sourceColumn: 32 } as const;
  const pack = () =>
    packColumnScales({
      ...slice,
      qzeros: new Uint8Array(8),
      scales: new Uint8Array(32),
      scalesDtype: "F16",
      groupColumns: 64,
      into: new Uint32Array(16),
      rowsPadded: 8,
    });
  expect(pack).toThrow("column 32 is not a multiple of 64");
});

test("checkGroupOrder refuses inputs in another order", () => {
  const order = Int32Array.from({ length: 96 }, (_, k) => Math.floor(k / 32));
  const check = (firstColumn = 0) =>
    checkGroupOrder("a.g_idx", new Uint8Array(order.buffer), { groupColumns: 32, firstColumn });
  expect(check).not.toThrow();
  // As the inputs from 64 on, these are in groups 2, 3 and 4.
  expect(() => check(64)).toThrow("input 64 is not in group 2");
  order.forEach((group, k) => {
    order[k] = group + 2;
  });
  expect(() => check(64)).not.toThrow();
  order.forEach((group, k) => {
    order[k] = group - 2;
  });
  order[40] = 0;
  expect(check).toThrow(UnsupportedError);
  expect(check).toThrow("Cannot use a.g_idx with desc_act: input 40 is not in group 1");
});

interface Encoded {
  readonly b64: string;
}
interface Golden {
  readonly awq_matmul: {
    readonly N: number;
    readonly K: number;
    readonly group_size: 32;
    readonly qweight: Encoded;
    readonly qzeros: Encoded;
    readonly scales_f16: Encoded;
    readonly dequant_NxK: Encoded;
    readonly x: Encoded;
    readonly y: Encoded;
  };
}

test.skipIf(absent)("AWQ weights multiply as the golden file has it", () => {
  const golden = (JSON.parse(readFileSync(FILE, "utf8")) as Golden).awq_matmul;
  const bytesOf = ({ b64 }: Encoded) => new Uint8Array(Buffer.from(b64, "base64"));
  const floatsOf = (encoded: Encoded) => new Float32Array(bytesOf(encoded).buffer);
  const { N, K, group_size: groupColumns } = golden;
  const slice = { packing: "awq", sourceRows: N, sourceColumns: K } as const;
  const words = packed({ ...slice, lanes: 8, rowsPadded: N }, bytesOf(golden.qweight), seeded(1));
  const scaleWords = new Uint32Array(Math.ceil(K / groupColumns) * N);
  packColumnScales({
    ...slice,
    qzeros: bytesOf(golden.qzeros),
    scales: bytesOf(golden.scales_f16),
    scalesDtype: "F16",
    groupColumns,
    into: scaleWords,
    rowsPadded: N,
  });
  const weight = Float64Array.from({ length: N * K }, (_, i) => {
    const [n, k] = [Math.floor(i / K), i % K];
    const word = scaleWords[Math.floor(k / groupColumns) * N + n]!;
    const scale = new Float32Array(Uint32Array.of(word & ~31).buffer)[0]!;
    return (codeAt(words, 8, K, n, k) - (word & 31)) * scale;
  });
  expect(Float32Array.from(weight)).toEqual(floatsOf(golden.dequant_NxK));
  const x = floatsOf(golden.x);
  const want = floatsOf(golden.y);
  const largest = Math.max(...want.map(Math.abs));
  want.forEach((value, i) => {
    const [row, n] = [Math.floor(i / N), i % N];
    let sum = 0;
    for (let k = 0; k < K; k++) sum += x[row * K + k]! * weight[n * K + k]!;
    expect(Math.abs(sum - value) / largest).toBeLessThan(1e-6);
  });
});
