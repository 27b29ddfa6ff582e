import { describe, expect, test } from "vitest";
import { Checkpoint, type WeightProgress } from "../../src/checkpoint/checkpoint.ts";
import { memorySource } from "../../src/checkpoint/memory_source.ts";
import type { WeightSource } from "../../src/checkpoint/source.ts";
import type { WeightChunk } from "../../src/checkpoint/weight_spec.ts";
import { checkpointFailure } from "../support/checkpoints/checkpoint_failure.ts";
import { Collector, decode, spec, TENSORS } from "../support/checkpoints/collect_weights.ts";
import {
  checkpointFiles,
  encodeTensor,
  fp8BlockTensors,
  joinFile,
} from "../support/checkpoints/write_checkpoint.ts";

async function open(files: Record<string, Uint8Array>): Promise<Checkpoint> {
  return Checkpoint.open(memorySource(files));
}

describe("Checkpoint.load", () => {
  test.each([1, 2, 3])("delivers what was written, out of %i file(s)", async (shards) => {
    const checkpoint = await open(checkpointFiles({ tensors: TENSORS, shards }));
    for (const chunkBytes of [1, 10, 16, 4096]) {
      const specs = TENSORS.map((tensor) => spec(tensor));
      checkpoint.check(specs);
      await checkpoint.load(specs, { chunkBytes });
      for (const [i, { name, values, dtype }] of TENSORS.entries()) {
        const { destination } = specs[i]!;
        const got = (destination as Collector).bytes();
        expect(got, name).toEqual(encodeTensor(values, dtype));
        expect(decode(got, dtype), name).toEqual([...Array.from(values)]);
        expect((destination as Collector).finished, name).toBe(1);
        for (const chunk of (destination as Collector).chunks) expect(chunk.dtype).toBe(dtype);
      }
    }
  });

  test("delivers the same, whatever the order of files, of tensors in them and of the index", async () => {
    const files = (order: readonly number[]) => {
      const tensors = order.map((i) => TENSORS[i]!);
      return Object.entries(checkpointFiles({ tensors, shards: 3 }));
    };
    const deliveries = async (entries: readonly (readonly [string, Uint8Array])[]) => {
      const checkpoint = await open(Object.fromEntries(entries));
      const log: string[] = [];
      const specs = TENSORS.map((tensor) =>
        spec(tensor, { destination: new Collector(tensor.name, log) }),
      );
      checkpoint.check(specs);
      await checkpoint.load(specs, { chunkBytes: 16 });
      return { log, bytes: specs.map(({ destination }) => (destination as Collector).bytes()) };
    };
    const expected = await deliveries(files([0, 1, 2, 3, 4, 5, 6, 7]));
    for (const order of [
      [7, 6, 5, 4, 3, 2, 1, 0],
      [3, 0, 6, 1, 7, 2, 5, 4],
      [5, 2, 7, 4, 0, 6, 3, 1],
    ]) {
      expect(await deliveries(files(order))).toEqual(expected);
      expect(await deliveries(files(order).reverse())).toEqual(expected);
    }
  });

  test("reads the bytes of the specs once, and no others", async () => {
    const source = memorySource(checkpointFiles({ tensors: TENSORS, shards: 3 }));
    const read: string[] = [];
    const checkpoint = await Checkpoint.open({
      ...source,
      read(file, offset, length) {
        for (let at = offset; at < offset + length; at++) read.push(`${file} ${at}`);
        return source.read(file, offset, length);
      },
    });
    read.length = 0;
    const wanted = [5, 0, 3].map((i) => TENSORS[i]!);
    await checkpoint.load(
      wanted.map((tensor) => spec(tensor)),
      { chunkBytes: 8 },
    );
    const bytes = wanted.flatMap(({ name }) => {
      const { file, offset, byteLength } = checkpoint.tensors.get(name)!;
      return Array.from({ length: byteLength }, (_, i) => `${file} ${offset + i}`);
    });
    expect(read).toEqual(bytes);
  });

  test("cuts between rows, never inside one, in the order of the specs", async () => {
    const checkpoint = await open(checkpointFiles({ tensors: TENSORS }));
    const log: string[] = [];
    const wanted = ["scale", "model.embed_tokens.weight", "model.layers.0.packed", "nothing"];
    const specs = wanted.map((name) =>
      spec(TENSORS.find((one) => one.name === name)!, { destination: new Collector(name, log) }),
    );
    await checkpoint.load(specs, { chunkBytes: 33 });
    expect(log).toEqual([
      "scale 0+1",
      "scale done",
      "model.embed_tokens.weight 0+4", // 8 bytes a row
      "model.embed_tokens.weight 4+2",
      "model.embed_tokens.weight done",
      "model.layers.0.packed 0+1", // 20 bytes a row
      "model.layers.0.packed done",
      "nothing done",
    ]);
  });

  test("makes one chunk of a row that is longer than a chunk", async () => {
    const checkpoint = await open(checkpointFiles({ tensors: TENSORS }));
    const wanted = spec(TENSORS[0]!);
    await checkpoint.load([wanted], { chunkBytes: 3 });
    expect((wanted.destination as Collector).chunks.map(({ rows }) => rows)).toEqual([
      1, 1, 1, 1, 1, 1,
    ]);
  });

  test("reads a tensor again", async () => {
    const checkpoint = await open(checkpointFiles({ tensors: TENSORS }));
    for (let round = 0; round < 2; round++) {
      const wanted = spec(TENSORS[1]!);
      await checkpoint.load([wanted]);
      expect((wanted.destination as Collector).bytes().length).toBe(48);
    }
  });

  test("reports progress up to the last byte", async () => {
    const checkpoint = await open(checkpointFiles({ tensors: TENSORS }));
    const seen: WeightProgress[] = [];
    await checkpoint.load(
      TENSORS.slice(0, 2).map((tensor) => spec(tensor)),
      { chunkBytes: 24, onProgress: (progress) => seen.push(progress) },
    );
    expect(seen.map(({ loadedBytes }) => loadedBytes)).toEqual([24, 48, 64, 80, 96]);
    expect(seen.at(-1)).toEqual({
      tensor: "model.layers.0.mlp.gate.weight",
      loadedBytes: 96,
      totalBytes: 96,
    });
  });

  test("stops between chunks when aborted", async () => {
    const checkpoint = await open(checkpointFiles({ tensors: TENSORS }));
    const stop = new AbortController();
    const wanted = spec(TENSORS[0]!);
    const loading = checkpoint.load([wanted], {
      chunkBytes: 8,
      signal: stop.signal,
      onProgress: ({ loadedBytes }) => {
        if (loadedBytes === 16) stop.abort(new Error("enough"));
      },
    });
    await expect(loading).rejects.toThrow("enough");
    expect((wanted.destination as Collector).chunks.length).toBe(2);
    await expect(checkpoint.load([wanted], { signal: stop.signal })).rejects.toThrow("enough");
  });

  test("passes on what a destination or the source throws, and writes no more", async () => {
    const source = memorySource(checkpointFiles({ tensors: TENSORS }));
    let broken = false;
    const checkpoint = await Checkpoint.open({
      ...source,
      read: async (...range) => {
        if (broken) throw new Error("unplugged");
        return source.read(...range);
      },
    });
    let writes = 0;
    const destination = {
      write: async () => {
        writes++;
        broken = true; // the read ahead fails as well, and must not go unhandled
        await Promise.resolve();
        throw new Error("device lost");
      },
    };
    const wanted = spec(TENSORS[0]!, { destination });
    await expect(checkpoint.load([wanted], { chunkBytes: 8 })).rejects.toThrow("device lost");
    expect(writes).toBe(1);
    await expect(checkpoint.load([spec(TENSORS[1]!)])).rejects.toThrow("unplugged");
  });

  test("refuses a source that gives too few bytes, naming the tensor", async () => {
    const source = memorySource(checkpointFiles({ tensors: TENSORS }));
    let opened = false;
    const checkpoint = await Checkpoint.open({
      ...source,
      read: async (file, offset, length) =>
        (await source.read(file, offset, length)).subarray(opened ? 1 : 0),
    });
    opened = true;
    const error = await checkpointFailure(checkpoint.load([spec(TENSORS[0]!)]));
    expect(error.tensor).toBe(TENSORS[0]!.name);
    expect(error.message).toContain("gave 47 bytes instead of 48");
  });

  test("checks every tensor before the first write", async () => {
    const checkpoint = await open(checkpointFiles({ tensors: TENSORS }));
    const first = spec(TENSORS[0]!);
    await checkpointFailure(checkpoint.load([first, spec(TENSORS[1]!, { shape: [4, 3] })]));
    expect((first.destination as Collector).chunks).toEqual([]);
  });

  test("refuses a chunk size that is no size", async () => {
    const checkpoint = await open(checkpointFiles({ tensors: TENSORS }));
    for (const chunkBytes of [0, -1, Number.NaN]) {
      await expect(checkpoint.load([], { chunkBytes })).rejects.toThrow(RangeError);
    }
  });

  test.each(["F32", "BF16"] as const)(
    "brings FP8 blocks back, scales in %s",
    async (scaleDtype) => {
      const [rows, columns] = [130, 200];
      const values = Float32Array.from(
        { length: rows * columns },
        (_, i) => Math.sin(i) * (1 + (i % columns)),
      );
      const tensors = fp8BlockTensors({ name: "a.weight", values, rows, columns, scaleDtype });
      const checkpoint = await open(checkpointFiles({ tensors }));
      const specs = tensors.map((tensor) => spec(tensor));
      await checkpoint.load(specs);
      const [scales, codes] = specs.map(({ destination, dtypes }) =>
        decode((destination as Collector).bytes(), dtypes[0]!),
      );
      expect(scales!.length).toBe(4);
      let worst = 0;
      for (let i = 0; i < values.length; i++) {
        const block = Math.floor(i / columns / 128) * 2 + Math.floor((i % columns) / 128);
        const error = Math.abs(codes![i]! * scales![block]! - values[i]!);
        // Half a step of a code with three bits of fraction, or of the smallest step.
        const allowed = Math.abs(values[i]!) / 16 + scales![block]! * 2 ** -10;
        worst = Math.max(worst, error / allowed);
      }
      expect(worst).toBeLessThanOrEqual(1);
      expect(worst).toBeGreaterThan(0.5);
    },
  );
});

test("Checkpoint.load holds two chunks at most, whatever the size", async () => {
  // 300 MB of rows of 6,000 bytes, in two tensors, that exist only while they are read.
  const rowBytes = 6000;
  const rows = [40_000, 10_000];
  const entries = rows.map((count, i) => {
    const begin = i === 0 ? 0 : rows[0]! * rowBytes;
    const offsets = [begin, begin + count * rowBytes];
    return [`t${i}`, { dtype: "BF16", shape: [count, rowBytes / 2], data_offsets: offsets }];
  });
  const head = joinFile(JSON.stringify(Object.fromEntries(entries)), []);
  const chunkBytes = 1024 * 1024;
  let inFlight = 0;
  let peak = 0;
  let largest = 0;
  const source: WeightSource = {
    name: "virtual",
    list: async () => [{ name: "model.safetensors", size: head.length + 300_000_000 }],
    async read(_, offset, length) {
      if (offset < head.length) return new Uint8Array(head.subarray(offset, offset + length));
      inFlight += length;
      peak = Math.max(peak, inFlight);
      largest = Math.max(largest, length);
      await new Promise((resolve) => setImmediate(resolve));
      const bytes = new Uint8Array(length);
      // Each row begins with its number, across both tensors.
      const view = new DataView(bytes.buffer);
      const firstRow = (offset - head.length) / rowBytes;
      for (let row = 0; row < length / rowBytes; row++)
        view.setUint32(row * rowBytes, firstRow + row);
      return bytes;
    },
  };
  let nextRow = 0;
  const destination = {
    async write({ bytes, rows: count }: WeightChunk) {
      await new Promise((resolve) => setImmediate(resolve));
      const view = new DataView(bytes.buffer);
      for (let row = 0; row < count; row++) {
        if (view.getUint32(row * rowBytes) !== nextRow++)
          throw new Error(`row ${nextRow - 1} is wrong`);
      }
      inFlight -= bytes.length;
    },
  };
  const checkpoint = await Checkpoint.open(source);
  const specs = rows.map((count, i) =>
    spec({ name: `t${i}`, shape: [count, rowBytes / 2], dtype: "BF16" }, { destination }),
  );
  checkpoint.check(specs);
  await checkpoint.load(specs, { chunkBytes });
  expect(nextRow).toBe(50_000);
  expect(inFlight).toBe(0);
  expect(largest).toBe(Math.floor(chunkBytes / rowBytes) * rowBytes);
  expect(peak).toBe(2 * largest);
});
