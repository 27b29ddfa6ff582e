import { describe, expect, test } from "vitest";
import { crc32c } from "../../src/cache/crc32c.ts";
import {
  allocatePacked,
  openPacked,
  type PageHeader,
  packedBytes,
  packedSizes,
  seal,
} from "../../src/cache/page_header.ts";
import { TransferError } from "../../src/errors.ts";

const HEADER: PageHeader = {
  modelHash: "0123abcd",
  numerics: "fma128",
  dtype: "bf16",
  entryWidth: 6,
  pageSize: 4,
  layers: 5,
  firstLayer: 1,
  layerCount: 2,
  pageCount: 3,
};

function pack(changes: Partial<PageHeader> = {}): Uint8Array<ArrayBuffer> {
  const { bytes, payload } = allocatePacked({ ...HEADER, ...changes });
  payload.forEach((_, i) => {
    payload[i] = i * 7;
  });
  seal(bytes);
  return bytes;
}

function refusal(bytes: Uint8Array<ArrayBuffer>): string {
  try {
    openPacked(bytes, HEADER);
  } catch (error) {
    expect(error).toBeInstanceOf(TransferError);
    expect((error as TransferError).message).toContain((error as TransferError).field);
    return (error as TransferError).field;
  }
  return "taken";
}

test("crc32c() gives the published check values, whatever the length", () => {
  expect(crc32c(new TextEncoder().encode("123456789"))).toBe(0xe3069283);
  expect(crc32c(new Uint8Array(32))).toBe(0x8a9136aa);
  expect(crc32c(new Uint8Array(32).fill(0xff))).toBe(0x62a8ab43);
  expect(crc32c(new Uint8Array(0))).toBe(0);
});

describe("openPacked()", () => {
  test("gives back the header and the payload", () => {
    const bytes = pack();
    const { header, payload } = openPacked(bytes, HEADER);
    expect(header).toEqual(HEADER);
    expect(payload).toHaveLength(6 * 2 * 4 * 3 * 2);
    expect(payload[5]).toBe(35);
    expect(bytes).toHaveLength(packedBytes(HEADER));
    expect(payload.byteOffset % 8).toBe(0);
  });

  test("takes pages with one layer behind the model's, and says how long all layers may be", () => {
    const all = { firstLayer: 0, layerCount: 5 };
    const sizes = [5, 6].map((layerCount) => pack({ ...all, layerCount }).length);
    expect(packedSizes(HEADER, HEADER.pageCount)).toEqual(sizes);
    expect(openPacked(pack({ ...all, layerCount: 6 }), HEADER).header.layerCount).toBe(6);
    expect(refusal(pack({ ...all, layerCount: 7 }))).toBe("layerCount");
  });

  test("takes bytes that lie inside a larger buffer", () => {
    const bytes = pack();
    const larger = new Uint8Array(bytes.length + 24);
    larger.set(bytes, 11);
    const inside = larger.subarray(11, 11 + bytes.length);
    expect(openPacked(inside, HEADER).header).toEqual(HEADER);
  });

  test.each<[keyof PageHeader, Partial<PageHeader>]>([
    ["modelHash", { modelHash: "0123abce" }],
    ["numerics", { numerics: "mma128" }],
    ["dtype", { dtype: "f32" }],
    ["entryWidth", { entryWidth: 8 }],
    ["pageSize", { pageSize: 8 }],
    ["layers", { layers: 6 }],
    ["layerCount", { firstLayer: 5 }],
    ["firstLayer", { firstLayer: -1 }],
    ["firstLayer", { firstLayer: 0.5 }],
    ["pageCount", { pageCount: "" as unknown as number }],
  ])("refuses a wrong %s by name", (field, changes) => {
    expect(refusal(pack(changes))).toBe(field);
  });

  test("refuses what is no page, another version, and damaged fields", () => {
    const with32 = (at: number, value: number) => {
      const bytes = pack();
      new DataView(bytes.buffer).setUint32(at, value, true);
      return bytes;
    };
    expect(refusal(with32(0, 1))).toBe("magic");
    expect(refusal(with32(4, 2))).toBe("version");
    expect(refusal(with32(8, 2 ** 31))).toBe("length");
    expect(refusal(with32(8, 8))).toBe("fields");
    expect(refusal(with32(12, 5))).toBe("checksum");
    expect(refusal(new Uint8Array(3))).toBe("length");
  });

  test("refuses a payload that was cut, or in which a bit has changed", () => {
    const bytes = pack();
    expect(refusal(bytes.slice(0, -4))).toBe("length");
    for (const at of [bytes.length - 1, bytes.length - 100]) {
      const flipped = bytes.slice();
      flipped[at]! ^= 4;
      expect(refusal(flipped)).toBe("checksum");
    }
  });
});
