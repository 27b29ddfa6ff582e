/** Whose images are read first where several clients wait. */
import { expect, test } from "vitest";
import { ImageReader, type PlacedImage } from "../../../src/engine/images/image_reader.ts";
import type { ImageService } from "../../../src/engine/images/image_service.ts";
import type { ImageProcessor, PreparedImage } from "../../../src/engine/images/prepared_image.ts";

/** Without pictures, so that no tower is asked; what is opened is told. */
function openReader(opened: string[]) {
  const service: ImageService = {
    ...{ readsAll: true, readsDrawings: false, close: () => {} },
    open: async (seen) => {
      const hash = String((seen as Uint8Array)[0]);
      opened.push(hash);
      await new Promise((resolve) => setTimeout(resolve, 1));
      return { hash, pictures: async function* () {}, close: () => {} };
    },
  };
  const device = {
    runner: () => expect.unreachable("no tower is asked"),
    isLost: async () => false,
    settled: async () => {},
    progressed: () => {},
  };
  const processor = {} as ImageProcessor;
  return new ImageReader({ processor, device, service, cacheBytes: 0 });
}

const prepared = { key: "k", join: () => [] } as unknown as PreparedImage;
const placed = (number: number): PlacedImage => ({ prepared, image: Uint8Array.of(number) });

test("a client with many images leaves the others their turns", async () => {
  const opened: string[] = [];
  const reader = openReader(opened);
  const read = (number: number, client: string) =>
    reader.rows([placed(number)], { client, isWanted: () => true });
  const many = Array.from({ length: 20 }, (_, i) => read(i, "many"));
  const one = read(99, "one");
  await Promise.all([...many, one]);
  expect(opened.indexOf("99")).toBeLessThan(3);
  expect(opened).toHaveLength(21);
});

test("an image that fails, or is wanted no more, holds up no other", async () => {
  const opened: string[] = [];
  const reader = openReader(opened);
  const broken = { ...prepared, join: () => expect.unreachable("it fails") } as PreparedImage;
  const failing = reader.rows([{ ...placed(1), prepared: broken }], { isWanted: () => true });
  const left = reader.rows([placed(2)], { isWanted: () => false });
  const well = reader.rows([placed(3)], { isWanted: () => true });
  await expect(failing).rejects.toThrow("it fails");
  expect([await left, (await well).length]).toEqual([[], 1]);
  expect(opened).toEqual(["1", "3"]);
});

test("an image that is left while it is read is shown to no tower, and not kept", async () => {
  let isWanted = true;
  let asked = 0;
  const service: ImageService = {
    ...{ readsAll: true, readsDrawings: false, close: () => {} },
    open: async () => ({
      hash: "h",
      close: () => {},
      async *pictures() {
        yield { patches: new Float32Array(4), grid: { rows: 1, columns: 1 } };
      },
    }),
  };
  const device = {
    runner: () => ({
      run: async () => {
        asked += 1;
        return [new Float32Array(4)];
      },
    }),
    ...{ isLost: async () => false, settled: async () => {}, progressed: () => {} },
  };
  const parts = { processor: {} as ImageProcessor, device, service, cacheBytes: 2 ** 20 };
  const reader = new ImageReader(parts as unknown as ConstructorParameters<typeof ImageReader>[0]);
  const one = {
    prepared: { ...prepared, join: ([rows]: never[]) => rows },
    image: Uint8Array.of(1),
  };
  const read = reader.rows([one as unknown as PlacedImage], { isWanted: () => isWanted });
  // Its picture is there by then, and its name is being made.
  for (let i = 0; i < 6; i++) await Promise.resolve();
  isWanted = false;
  expect(await read).toEqual([]);
  expect(asked).toBe(0);
  isWanted = true;
  const again = await reader.rows([one as unknown as PlacedImage], { isWanted: () => isWanted });
  expect([again.length, asked]).toEqual([1, 1]);
});
