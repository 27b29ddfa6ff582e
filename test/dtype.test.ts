import { readFileSync } from "node:fs";
import { join } from "node:path";
import { describe, expect, test } from "vitest";
import { decodeBf16, decodeE4m3, decodeF16, encodeBf16, encodeE4m3 } from "../src/dtype.ts";
import { SHARED_MODELS } from "./support/checkpoints/folder_source.ts";

interface Recorded {
  readonly b64: string;
}

const bytes = ({ b64 }: Recorded) => Uint8Array.from(Buffer.from(b64, "base64"));
const floats = (recorded: Recorded) => new Float32Array(bytes(recorded).buffer);

describe.skipIf(SHARED_MODELS === undefined)("golden conversions (needs ../shared/data)", () => {
  const golden = SHARED_MODELS
    ? JSON.parse(readFileSync(join(SHARED_MODELS, "../golden/kernels.json"), "utf8"))
    : {};

  test("encodeBf16() rounds to nearest, ties to even", () => {
    const { x, bits } = golden.bf16_encode;
    expect(Array.from(floats(x), encodeBf16)).toEqual([...new Uint16Array(bytes(bits).buffer)]);
  });

  test("encodeE4m3() rounds to nearest, ties to even, and saturates", () => {
    const { x, code } = golden.e4m3_encode;
    expect(Array.from(floats(x), encodeE4m3)).toEqual([...bytes(code)]);
  });

  test("decodeE4m3() knows all 256 codes", () => {
    const decoded = Array.from({ length: 256 }, (_, code) => decodeE4m3(code));
    expect(decoded).toEqual(golden.e4m3_decode.map(Number));
  });
});

test("codes survive a round trip", () => {
  for (let code = 0; code < 256; code++) {
    if ((code & 0x7f) !== 0x7f) expect(encodeE4m3(decodeE4m3(code))).toBe(code);
  }
  for (let bits = 0; bits < 0x10000; bits += 7) {
    const value = decodeBf16(bits);
    if (!Number.isNaN(value)) expect(encodeBf16(value)).toBe(bits);
  }
});

test("decodeF16() knows normal numbers, subnormals and infinity", () => {
  expect([0x3c00, 0xc000, 0x0001, 0x03ff, 0x7bff, 0x7c00].map(decodeF16)).toEqual([
    1,
    -2,
    2 ** -24,
    1023 * 2 ** -24,
    65504,
    Number.POSITIVE_INFINITY,
  ]);
  expect(decodeF16(0x7e00)).toBeNaN();
});
