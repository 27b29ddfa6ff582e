/** What is kept of images that were seen: the bytes of it, and which one goes first. */
import { expect, test } from "vitest";
import { FeatureCache, type ImageFeatures } from "../../../src/engine/images/feature_cache.ts";

const image = (name: string, bytes: number): ImageFeatures => {
  return { name, rows: [new Float32Array(bytes / 4)] };
};

test("the image that was used the longest ago goes first, once all are over the limit", () => {
  const cache = new FeatureCache(100);
  for (const name of ["a", "b"]) cache.add(name, image(name, 48));
  expect(cache.find("a")?.name).toBe("a");
  cache.add("c", image("c", 48));
  expect(["a", "b", "c"].map((name) => cache.find(name)?.name)).toEqual(["a", undefined, "c"]);
});

test("an image that has no room is not kept, and all others are", () => {
  const cache = new FeatureCache(100);
  cache.add("a", image("a", 48));
  cache.add("large", image("large", 200));
  expect([cache.find("a")?.name, cache.find("large")]).toEqual(["a", undefined]);
});

test("a cache of no bytes keeps nothing", () => {
  const cache = new FeatureCache(0);
  cache.add("a", image("a", 4));
  expect(cache.find("a")).toBeUndefined();
});
