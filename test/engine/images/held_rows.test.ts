/** How many rows of images requests hold together. */
import { expect, test } from "vitest";
import type { ImageFeatures } from "../../../src/engine/images/feature_cache.ts";
import { HeldRows } from "../../../src/engine/images/held_rows.ts";

const image = (bytes: number): ImageFeatures => {
  return { name: "image", rows: [new Float32Array(bytes / 4)] };
};

test("what is beyond the limit is refused until others have ended", () => {
  const held = new HeldRows(100);
  const release = held.hold([image(60)]);
  expect(() => held.hold([image(60)])).toThrow(
    "Cannot reserve memory for rows of images: other requests hold 60 of 100 bytes, until they end",
  );
  held.hold([image(40)])();
  release();
  held.hold([image(100)]);
});

test("a request may hold more than the limit while no other request holds rows", () => {
  const held = new HeldRows(100);
  held.hold([image(400)])();
  held.hold([image(400)]);
  expect(() => held.hold([image(4)])).toThrow("hold 400 of 100 bytes");
});

test("requests share the rows of an image, which count once until the last request releases them", () => {
  const held = new HeldRows(100);
  const shared = image(80);
  const releases = [held.hold([shared]), held.hold([shared, shared])];
  releases[0]!();
  expect(() => held.hold([image(40)])).toThrow("hold 80 of 100 bytes");
  releases[1]!();
  held.hold([image(40)]);
});
