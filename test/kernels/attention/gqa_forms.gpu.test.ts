import { existsSync, readFileSync } from "node:fs";
import { describe, expect, test } from "vitest";
import { GQA_PREFILL_ROW_TILE } from "../../../kernels/attention/gqa/gqa_prefill.ts";
import { layoutFor } from "../../../kernels/linear/weights/layout.ts";
import { device, fullTest, seeded } from "../../support/devices/gpu.ts";
import { decodeRows, type GqaModel, prefillRows } from "../../support/reference/gqa.ts";
import { cut, fillCache, type Row, randoms, worst } from "../../support/reference/mla.ts";

const SINKS = Float32Array.of(3, -2, 9, 0, 1, 20, -40);
const MODELS: readonly (readonly [string, GqaModel])[] = [
  ["a group of seven", { heads: 7, kvHeads: 1, headDim: 20, scale: 0.2 }],
  ["a window", { heads: 4, kvHeads: 2, headDim: 8, scale: 0.2, window: 37 }],
  [
    "a window over splits, sinks",
    { heads: 6, kvHeads: 2, headDim: 36, scale: 0.1, window: 140, sinks: SINKS },
  ],
];

const entryWidth = ({ kvHeads, headDim }: GqaModel) => 2 * kvHeads * headDim;
const tilesOf = (rows: number) =>
  cut(rows, { unit: GQA_PREFILL_ROW_TILE, limit: 1, random: seeded(1) });
/** The last rows of a sequence. */
const lastRows = (sequence: number, length: number, count: number): Row[] =>
  Array.from({ length: count }, (_, i) => ({ sequence, position: length - count + i }));

/** The last has what the one before it has: that is left to the long campaign. */
const wanted = fullTest ? MODELS : MODELS.filter((_, i) => i !== 1);

describe.each(wanted)("one form: %s", (_, model) => {
  const random = seeded(4);
  const lengths = [290, 60];
  const sequences = lengths.map((n) => randoms(random, n * entryWidth(model)));
  const fill = (pageSize: number) =>
    fillCache(sequences, entryWidth(model), { pageSize, random: seeded(pageSize) });
  const rows = lastRows(0, 290, 45);
  const width = model.heads * model.headDim;
  const query = randoms(random, rows.length * width);
  const inputs = { model, cache: fill(16), rows, query, splitLength: 128 };

  test("prompt rows have the bits of generated rows", async () => {
    const prompt = await prefillRows(inputs, tilesOf(rows.length));
    expect(prompt.every(Number.isFinite)).toBe(true);
    expect(await decodeRows(inputs, 3)).toEqual(prompt);
    const { subgroupSize } = layoutFor(device);
    if (subgroupSize === undefined) return;
    expect(await prefillRows({ ...inputs, subgroupSize }, tilesOf(rows.length))).toEqual(prompt);
    expect(await decodeRows({ ...inputs, subgroupSize }, 3)).toEqual(prompt);
  });

  test("one split: with a reduce, without one, as a prompt", async () => {
    const whole = { ...inputs, splitLength: 384 };
    const direct = await decodeRows(whole, 1);
    expect(await decodeRows(whole, 2)).toEqual(direct);
    expect(await prefillRows(whole, tilesOf(rows.length))).toEqual(direct);
  });

  test("items, chunks, pages and neighbours change no bit", async () => {
    const reference = await prefillRows(inputs, tilesOf(rows.length));
    const pieces = cut(45, { unit: 1, limit: GQA_PREFILL_ROW_TILE, random: seeded(2) });
    expect(await prefillRows({ ...inputs, cache: fill(3) }, pieces)).toEqual(reference);
    const chunk = {
      ...inputs,
      rows: rows.slice(13, 30),
      query: query.slice(13 * width, 30 * width),
    };
    expect(await prefillRows(chunk, tilesOf(17))).toEqual(reference.slice(13 * width, 30 * width));
    const neighbours = randoms(random, 10 * width);
    const both = {
      ...inputs,
      cache: fill(64),
      rows: [...lastRows(1, 60, 10), ...rows],
      query: Float32Array.from([...neighbours, ...query]),
    };
    const behind = await prefillRows(both, [8, 2, ...tilesOf(rows.length)]);
    expect(behind.slice(10 * width)).toEqual(reference);
    const generated = await decodeRows(both, 3);
    expect(generated).toEqual(behind);
  });
});

const GOLDEN = "../shared/data/golden/kernels.json";
const missing = !existsSync(GOLDEN);

test.skipIf(missing)(`golden attention${missing ? `: no ${GOLDEN}` : ""}`, async () => {
  const { gqa_attention } = JSON.parse(readFileSync(GOLDEN, "utf8")) as {
    gqa_attention: Record<"q" | "k" | "v" | "y", { shape: number[]; b64: string }>;
  };
  const floats = (name: "q" | "k" | "v" | "y") =>
    new Float32Array(Uint8Array.from(Buffer.from(gqa_attention[name].b64, "base64")).buffer);
  const [tokens, heads, headDim] = gqa_attention.q.shape as [number, number, number];
  const kvHeads = gqa_attention.k.shape[1]!;
  const half = kvHeads * headDim;
  const entries = new Float32Array(tokens * 2 * half);
  for (let t = 0; t < tokens; t++) {
    entries.set(floats("k").subarray(t * half, (t + 1) * half), 2 * t * half);
    entries.set(floats("v").subarray(t * half, (t + 1) * half), (2 * t + 1) * half);
  }
  const inputs = {
    model: { heads, kvHeads, headDim, scale: headDim ** -0.5 },
    cache: fillCache([entries], 2 * half, { pageSize: 4, random: seeded(1) }),
    rows: lastRows(0, tokens, tokens),
    query: floats("q"),
    splitLength: 128,
  };
  const prompt = await prefillRows(inputs, tilesOf(tokens));
  expect(worst(prompt, floats("y"))).toBeLessThan(1e-5);
  expect(await decodeRows(inputs, 1)).toEqual(prompt);
});
