import { expect, test } from "vitest";
import { PREFILL_ROW_TILE } from "../../../kernels/attention/mla/mla_prefill.ts";
import { ropeTable } from "../../../src/layers/attention/rope_table.ts";
import { seeded } from "../../support/devices/gpu.ts";
import {
  absorb,
  cut,
  decode,
  example,
  fillCache,
  prefill,
  project,
  randoms,
  SMALL,
  worst,
} from "../../support/reference/mla.ts";

test("mlaDecode and mlaPrefill agree: absorbed = expanded, in one split and in several", async () => {
  const { entries, up, query, inputs } = example(300, 20, seeded(3));
  const absorbed = absorb(SMALL, up, query);
  const data = { query, entries, up };
  const tiles = cut(20, { unit: PREFILL_ROW_TILE, limit: 1, random: seeded(1) });
  const reference = await prefill({ ...inputs, splitLength: 512 }, data, { tiles, passes: [300] });
  for (const splitLength of [128, 512]) {
    const attended = await decode({ ...inputs, splitLength }, query, absorbed);
    expect(worst(project(SMALL, up, attended), reference)).toBeLessThan(1e-4);
  }
  const split = await prefill({ ...inputs, splitLength: 128 }, data, { tiles, passes: [300] });
  expect(worst(split, reference)).toBeLessThan(1e-5);
});

test.each([1, 2, 3])("mlaPrefill: passes and row tiles change no bit (seed %i)", async (seed) => {
  const random = seeded(seed);
  const { entries, up, query, inputs } = example(128 + Math.floor(random() * 300), 33, random);
  const keys = entries.length / (SMALL.latent + SMALL.rope);
  const data = { query, entries, up };
  const uncut = await prefill({ ...inputs, splitLength: 128 }, data, {
    tiles: cut(33, { unit: PREFILL_ROW_TILE, limit: 1, random }),
    passes: [keys],
  });
  const pieces = await prefill({ ...inputs, splitLength: 128 }, data, {
    tiles: cut(33, { unit: 1, limit: PREFILL_ROW_TILE, random }),
    passes: cut(keys, { unit: 128, limit: 256, random }),
  });
  expect(pieces).toEqual(uncut);
});

test("mlaPrefill: a prompt in chunks has the bits of the whole prompt", async () => {
  const { entries, up, query, rows, inputs } = example(290, 290, seeded(8));
  const width = SMALL.heads * (SMALL.nope + SMALL.rope);
  const tilesOf = (count: number) =>
    cut(count, { unit: PREFILL_ROW_TILE, limit: 1, random: seeded(1) });
  const uncut = await prefill(
    { ...inputs, splitLength: 128 },
    { query, entries, up },
    { tiles: tilesOf(290), passes: [290] },
  );
  for (let first = 0; first < 290; ) {
    const end = Math.min(290, first + 73);
    const chunk = await prefill(
      { ...inputs, rows: rows.slice(first, end), splitLength: 128 },
      { query: query.subarray(first * width, end * width), entries, up },
      { tiles: tilesOf(end - first), passes: [end] },
    );
    const outWidth = SMALL.heads * SMALL.value;
    expect(chunk).toEqual(uncut.subarray(first * outWidth, end * outWidth));
    first = end;
  }
});

test("mlaDecode: page size, order of rows and neighbours change no bit", async () => {
  const random = seeded(5);
  const { heads, latent, nope, rope } = SMALL;
  const lengths = [1, 40, 129, 300, 513];
  const sequences = lengths.map((length) => randoms(random, length * (latent + rope)));
  const rows = lengths.map((length, sequence) => ({ sequence, position: length - 1 }));
  const query = rows.map(() => randoms(random, heads * (nope + rope)));
  const absorbed = rows.map(() => randoms(random, heads * latent));
  const table = ropeTable({ theta: 10000, dim: rope, positions: 513 });
  const run = async (pageSize: number, order: readonly number[]) => {
    const cache = fillCache(sequences, latent + rope, { pageSize, random });
    const pick = (parts: readonly Float32Array[]) =>
      Float32Array.from(order.flatMap((i) => [...parts[i]!]));
    const out = await decode(
      {
        shape: SMALL,
        cache,
        rows: order.map((i) => rows[i]!),
        table,
        scale: 0.2,
        splitLength: 256,
      },
      pick(query),
      pick(absorbed),
    );
    return order.map((_, i) => out.slice(i * heads * latent, (i + 1) * heads * latent));
  };
  const reference = await run(16, [0, 1, 2, 3, 4]);
  for (const pageSize of [1, 3, 64])
    expect(await run(pageSize, [0, 1, 2, 3, 4])).toEqual(reference);
  const reversed = await run(16, [4, 3, 2, 1, 0]);
  expect(reversed.reverse()).toEqual(reference);
  // Alone: those with one split are written without a reduce.
  for (const i of [0, 2, 4]) expect(await run(3, [i])).toEqual([reference[i]]);
});
