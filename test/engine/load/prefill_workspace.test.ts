import { expect, test } from "vitest";
import { prefillCapacity } from "../../../src/engine/load/prefill_workspace.ts";

/** Splits of 256; 40 bytes an entry; room for far more than is wanted. */
const WORKSPACE = {
  expandedEntry: { bytes: 40, widest: 30 },
  splitLength: 256,
  chunkedPrefix: true,
  chunkedPrefixThreshold: 8192,
};
const BOUNDS = {
  maxKeys: 32_768 + 256,
  maxRows: 128,
  leftBytes: 1e9,
  cacheBytes: 0,
  maxTensorBytes: 1e9,
};

test.each([
  // 8191 cached tokens and 128 rows.
  ["prefixes below the threshold, and a step's rows", {}, {}, 8448],
  ["a threshold that whole splits do not meet", { chunkedPrefixThreshold: 1000 }, {}, 1280],
  ["a threshold that they meet exactly", { chunkedPrefixThreshold: 897 }, {}, 1024],
  ["two splits when everything is chunked", { chunkedPrefixThreshold: 0 }, {}, 512],
  ["two splits at least", { chunkedPrefixThreshold: 1 }, {}, 512],
  ["all keys of a step at most", { chunkedPrefixThreshold: 1e6 }, {}, 33_024],
  ["all keys of a step in one piece", { chunkedPrefix: false }, {}, 33_024],
  ["the keys of a short context", { chunkedPrefix: false }, { maxKeys: 300 }, 512],
  ["what one binding holds", {}, { maxTensorBytes: 30 * 2000 }, 1792],
  ["an eighth of what is left", {}, { leftBytes: 40 * 8 * 1000 }, 768],
  ["what the cache leaves", {}, { leftBytes: 1e6, cacheBytes: 1e6 - 40 * 600 }, 512],
  ["one split at least", {}, { leftBytes: 1e6, cacheBytes: 2e6 }, 256],
  ["one split at least, in one piece too", { chunkedPrefix: false }, { maxTensorBytes: 9 }, 256],
  ["nothing where nothing is expanded", { expandedEntry: undefined }, {}, 0],
])("prefillCapacity holds %s", (_, workspace, bounds, entries) => {
  const given = { ...WORKSPACE, ...workspace };
  expect(prefillCapacity(given, { ...BOUNDS, ...bounds })).toBe(entries);
});
