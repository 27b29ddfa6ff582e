import { describe, expect, test } from "vitest";
import {
  checkGroupOrder,
  packColumnScales,
} from "../../../kernels/linear/weights/column_scales.ts";
import { scalePlace } from "../../../kernels/linear/weights/weight_order.ts";
import { decodeF16, encodeBf16 } from "../../../src/dtype.ts";
import { UnsupportedError } from "../../../src/errors.ts";
import { packFile } from "../../support/checkpoints/packed_columns.ts";
import { seeded } from "../../support/seeded.ts";

describe.each(["awq", "gptq"] as const)("packColumnScales of %s", (packing) => {
  test("writes the scale words of a slice", () => {
    const [sourceRows, sourceColumns, rowsPadded] = [40, 320, 32] as const;
    const order = { lanes: 8, rowsPerLane: 2, scaleOrder: "byRun" } as const;
    const place = scalePlace(order, { rowsPadded, groups: 3 });
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
        place,
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
          const word = into[place(r, group)]!;
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
      place: scalePlace({ lanes: 8 }, { rowsPadded: 8, groups: 2 }),
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
