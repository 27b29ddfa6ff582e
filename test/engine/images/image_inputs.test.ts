import { describe, expect, test } from "vitest";
import { readInputs } from "../../../src/engine/images/image_inputs.ts";
import { plainRequest, transferOf } from "../../../src/engine/remote/plain_request.ts";
import { InvalidRequestError, UnsupportedError } from "../../../src/errors.ts";
import type { ImageInput } from "../../../src/image_input.ts";
import { MAX_IMAGE_BYTES } from "../../../src/images/pixels.ts";

const png = Uint8Array.of(0x89, 0x50, 0x4e, 0x47);
const data = Uint8ClampedArray.of(1, 2, 3, 4, 5, 6, 7, 8);
const pixels = { width: 2, height: 1, data };

/** As a browser's are known from any window. */
const drawing = () =>
  ({ width: 3, height: 4, close() {}, [Symbol.toStringTag]: "ImageBitmap" }) as ImageInput;

const read = (images: readonly unknown[], readsDrawings = false) =>
  readInputs(images as readonly ImageInput[], { readsDrawings });

describe("images as programs give them", () => {
  test("are bytes, blobs, pixels, and bitmaps where they are read", async () => {
    const bitmap = drawing();
    const seen = await read([png, new Blob([png]), new File([png], "a.gif"), pixels, bitmap], true);
    const [bytes, blob, file, image, drawn] = seen;
    expect(bytes).toBe(png);
    expect([blob, file]).toEqual([png, png]);
    expect(image).toEqual({ width: 2, height: 1, rgba: data });
    expect(drawn).toBe(bitmap);
  });

  const broken = Object.assign(new Blob([png]), {
    arrayBuffer: () => Promise.reject(new Error("the file has changed")),
  });
  const large = Object.assign(new Blob([]), {});
  Object.defineProperty(large, "size", { value: MAX_IMAGE_BYTES + 1 });
  test.each<[string, unknown, RegExp]>([
    ["an ArrayBuffer", png.buffer, /it is no Uint8Array, Blob, ImageData or ImageBitmap$/],
    ["a text", "data:image/png;base64,", /it is no Uint8Array, Blob/],
    ["nothing", null, /it is no Uint8Array, Blob/],
    ["a blob that cannot be read", broken, /its bytes cannot be read \(the file has changed\)$/],
    ["a blob that is too large", large, /33554433 bytes are more than 33554432$/],
    [
      "pixels of 16 bits",
      { ...pixels, data: new Uint16Array(8) },
      /an ImageData has width, height, and data of 8 bits a channel$/,
    ],
    ["pixels without a height", { width: 2, data }, /an ImageData has width, height/],
    [
      "pixels of other colours",
      { ...pixels, colorSpace: "display-p3" },
      /its colours are no sRGB, but display-p3$/,
    ],
  ])("are refused by their number: %s", async (_, image, message) => {
    const error: unknown = await read([png, image]).catch((one: unknown) => one);
    expect(error).toBeInstanceOf(InvalidRequestError);
    expect((error as Error).message).toMatch(message);
    expect((error as Error).message).toMatch(/^Cannot read images\[1\]: /);
    expect((error as InvalidRequestError).field).toBe("images");
  });

  test("a bitmap is refused by its name where none is read", async () => {
    const error: unknown = await read([drawing()]).catch((one: unknown) => one);
    expect(error).toBeInstanceOf(UnsupportedError);
    expect((error as Error).message).toBe(
      "Cannot use images[0], an ImageBitmap: images are decoded where no canvas is; give its file or its pixels",
    );
  });
});

test("images go to an engine's thread in memory of their own, which is transferred", () => {
  const file = new Uint8Array([9, ...png, 9]).subarray(1, 5);
  const blob = new Blob([png]);
  const given = {
    prompt: "x",
    images: [file, pixels, { ...pixels, colorSpace: "display-p3" }, blob],
  };
  const plain = plainRequest(given);
  expect(plain.images!.slice(0, 3)).toEqual(given.images.slice(0, 3));
  expect(plain.images![3]).toBeInstanceOf(Blob);
  const memory = transferOf(plain);
  expect(memory.map(({ byteLength }) => byteLength)).toEqual([4, 8, 8]);
  expect(memory).not.toContain(file.buffer);
  expect(memory).not.toContain(data.buffer);
  expect(() => plainRequest({ prompt: "x", images: [(() => {}) as unknown as Blob] })).toThrow(
    /^Cannot send images\[0\] to the engine's thread/,
  );
});
