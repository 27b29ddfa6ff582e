import { describe, expect, test } from "vitest";
import { Checkpoint, type LoadProgress } from "../../src/checkpoint/checkpoint.ts";
import { memorySource } from "../../src/checkpoint/memory_source.ts";
import type { WeightSource } from "../../src/checkpoint/source.ts";
import { layerIndex, type WeightChunk, type WeightSpec } from "../../src/checkpoint/weight_spec.ts";
import { DTYPE_BYTES, type Dtype, decodeBf16, decodeE4m3, decodeF16 } from "../../src/dtype.ts";
import { CheckpointError } from "../../src/errors.ts";
import {
  checkpointFiles,
  encodeTensor,
  fp8BlockTensors,
  joinFile,
  jsonFile,
  safetensorsFile,
  type TensorInput,
} from "../support/write_checkpoint.ts";

const INDEX = "model.safetensors.index.json";

/** Collects chunks, and says in which order things happened. */
class Collector {
  readonly chunks: WeightChunk[] = [];
  finished = 0;
  readonly #log: string[] | undefined;
  readonly #name: string;

  constructor(name = "", log?: string[]) {
    this.#name = name;
    this.#log = log;
  }

  write(chunk: WeightChunk): void {
    expect(this.finished).toBe(0);
    this.chunks.push(chunk);
    this.#log?.push(`${this.#name} ${chunk.rowStart}+${chunk.rows}`);
  }

  finish(): void {
    this.finished++;
    this.#log?.push(`${this.#name} done`);
  }

  bytes(): Uint8Array {
    return Uint8Array.from(this.chunks.flatMap(({ bytes }) => [...bytes]));
  }
}

function spec(
  tensor: Pick<TensorInput, "name" | "shape" | "dtype">,
  more: Partial<WeightSpec> = {},
) {
  const { name, shape, dtype } = tensor;
  const destination = new Collector(name);
  return { name, shape, dtypes: [dtype], split: "none" as const, destination, ...more };
}

function ramp(count: number): number[] {
  return Array.from({ length: count }, (_, i) => (i % 7) - 3);
}

const TENSORS: readonly TensorInput[] = [
  { name: "model.embed_tokens.weight", shape: [6, 4], dtype: "BF16", values: ramp(24) },
  { name: "model.layers.0.mlp.gate.weight", shape: [3, 4], dtype: "F32", values: ramp(12) },
  { name: "model.layers.0.q.weight", shape: [4, 3], dtype: "F8_E4M3", values: ramp(12) },
  { name: "model.layers.0.norm.weight", shape: [4], dtype: "F16", values: ramp(4) },
  { name: "model.layers.0.codes", shape: [2, 2, 3], dtype: "I8", values: ramp(12) },
  { name: "model.layers.0.packed", shape: [1, 5], dtype: "I32", values: ramp(5) },
  { name: "scale", shape: [], dtype: "F32", values: [0.5] },
  { name: "nothing", shape: [0, 9], dtype: "BF16", values: [] },
];

async function open(files: Record<string, Uint8Array>): Promise<Checkpoint> {
  return Checkpoint.open(memorySource(files));
}

async function failure(work: Promise<unknown>): Promise<CheckpointError> {
  const error = await work.then(
    () => undefined,
    (reason: unknown) => reason,
  );
  expect(error).toBeInstanceOf(CheckpointError);
  return error as CheckpointError;
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
    const seen: LoadProgress[] = [];
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
    const error = await failure(checkpoint.load([spec(TENSORS[0]!)]));
    expect(error.tensor).toBe(TENSORS[0]!.name);
    expect(error.message).toContain("gave 47 bytes instead of 48");
  });

  test("checks every tensor before the first write", async () => {
    const checkpoint = await open(checkpointFiles({ tensors: TENSORS }));
    const first = spec(TENSORS[0]!);
    await failure(checkpoint.load([first, spec(TENSORS[1]!, { shape: [4, 3] })]));
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

describe("Checkpoint.check", () => {
  const files = checkpointFiles({ tensors: TENSORS, shards: 2 });
  const all = () => TENSORS.map((tensor) => spec(tensor));

  function refusal(checkpoint: Checkpoint, specs: readonly WeightSpec[]): CheckpointError {
    try {
      checkpoint.check(specs);
    } catch (error) {
      expect(error).toBeInstanceOf(CheckpointError);
      return error as CheckpointError;
    }
    throw new Error("check accepted it");
  }

  test("lists the missing tensors", async () => {
    const extra = ["x", "y"].map((name) => spec({ name, shape: [1], dtype: "F32" }));
    const error = refusal(await open(files), [...all(), ...extra]);
    expect([error.file, error.tensor]).toEqual([INDEX, "x"]);
    expect(error.message).toContain("tensors are missing: x, y");
  });

  test("names five of many", async () => {
    const extra = [1, 2, 3, 4, 5, 6, 7].map((i) =>
      spec({ name: `t${i}`, shape: [1], dtype: "F32" }),
    );
    const error = refusal(await open(files), [...all(), ...extra]);
    expect(error.message).toContain("missing: t1, t2, t3, t4, t5 and 2 more");
  });

  test("lets an optional tensor be missing, and load passes it over", async () => {
    const checkpoint = await open(files);
    const extra = spec({ name: "bias", shape: [1], dtype: "F32" }, { optional: true });
    checkpoint.check([...all(), extra]);
    await checkpoint.load([extra]);
    expect((extra.destination as Collector).finished).toBe(0);
  });

  test("names a tensor of another shape", async () => {
    for (const shape of [[4, 6], [6, 4, 1], [6], []]) {
      const error = refusal(await open(files), [spec(TENSORS[0]!, { shape }), ...all().slice(1)]);
      expect([error.file, error.tensor]).toEqual([
        "model-00001-of-00002.safetensors",
        TENSORS[0]!.name,
      ]);
      expect(error.message).toContain(`shape [6, 4], the model wants [${shape.join(", ")}]`);
    }
  });

  test("names a tensor of another dtype", async () => {
    const dtypes = ["F32", "F16"] as const;
    const error = refusal(await open(files), [spec(TENSORS[0]!, { dtypes }), ...all().slice(1)]);
    expect(error.message).toContain("it has dtype BF16, the model wants F32 or F16");
  });

  test("refuses a wanted tensor of a dtype that only the format knows, not a skipped one", async () => {
    const bytes = new Uint8Array(8);
    const odd = { name: "odd", shape: [1], dtype: "I64", bytes };
    const checkpoint = await open({ "model.safetensors": safetensorsFile([odd]) });
    const error = refusal(checkpoint, [spec({ name: "odd", shape: [1], dtype: "F32" })]);
    expect(error.message).toContain("it has the unsupported dtype I64, the model wants F32");
    checkpoint.check([], { ignored: (name) => name === "odd" });
  });

  test("names tensors that nobody wants, but for ignored ones", async () => {
    const more = { shape: [1], dtype: "F32" as const, values: [1] };
    const checkpoint = await open(
      checkpointFiles({
        tensors: [
          ...TENSORS,
          { name: "model.layers.0.rotary_emb.inv_freq", ...more },
          { name: "model.layers.61.eh_proj.weight", ...more },
        ],
      }),
    );
    const error = refusal(checkpoint, all());
    expect([error.file, error.tensor]).toEqual([
      "model.safetensors",
      "model.layers.61.eh_proj.weight",
    ]);
    expect(error.message).toContain("no use for tensors: model.layers.61.eh_proj.weight");
    checkpoint.check(all(), { ignored: (name) => (layerIndex(name) ?? 0) >= 61 });
  });
});

describe("Checkpoint.open", () => {
  const files = checkpointFiles({ tensors: TENSORS, shards: 3 });
  const shard = "model-00002-of-00003.safetensors";

  test("says when there are no weights at all", async () => {
    const error = await failure(open({ "config.json": jsonFile({}) }));
    expect(error.message).toContain("weights not fully downloaded: memory has neither");
  });

  test("lists every missing shard", async () => {
    const { [INDEX]: index, [shard]: second } = files;
    const error = await failure(open({ [INDEX]: index!, [shard]: second! }));
    expect(error.file).toBe(INDEX);
    expect(error.message).toContain(
      "weights not fully downloaded: missing model-00001-of-00003.safetensors, model-00003-of-00003.safetensors",
    );
  });

  test("takes a shard's name for a file name only", async () => {
    const index = jsonFile({ weight_map: { a: "../../etc/passwd" } });
    expect((await failure(open({ [INDEX]: index }))).message).toContain("missing ../../etc/passwd");
  });

  test("names a shard that is cut short", async () => {
    for (const lost of [1, 20, files[shard]!.length - 4]) {
      const bytes = files[shard]!.slice(0, -lost);
      const error = await failure(open({ ...files, [shard]: bytes }));
      expect(error.file).toBe(shard);
      expect(error.message).toContain("weights not fully downloaded");
    }
  });

  test("names a tensor that is not in the shard the index says", async () => {
    const index = JSON.parse(new TextDecoder().decode(files[INDEX]!));
    index.weight_map[TENSORS[0]!.name] = shard;
    const error = await failure(open({ ...files, [INDEX]: jsonFile(index) }));
    expect([error.file, error.tensor]).toEqual([shard, TENSORS[0]!.name]);
    expect(error.message).toContain("says it is here, but it is not");
  });

  test("passes over tensors of a shard that the index does not list", async () => {
    const index = JSON.parse(new TextDecoder().decode(files[INDEX]!));
    delete index.weight_map[TENSORS[0]!.name];
    const checkpoint = await open({ ...files, [INDEX]: jsonFile(index) });
    expect(checkpoint.tensors.size).toBe(TENSORS.length - 1);
  });

  test.each([
    ["no JSON", "{", "not valid JSON", undefined],
    ["no object", "[]", "no object of this name", "weight_map"],
    ["no weight_map", "{}", "no object of this name", "weight_map"],
    ["a list for weight_map", '{"weight_map":[]}', "no object of this name", "weight_map"],
    ["a shard that is no string", '{"weight_map":{"a":1}}', "not a string", "a"],
  ])("refuses an index with %s", async (_, text, say, tensor) => {
    const error = await failure(open({ ...files, [INDEX]: new TextEncoder().encode(text) }));
    expect([error.file, error.tensor]).toEqual([INDEX, tensor]);
    expect(error.message).toContain(say);
  });

  test("names a damaged shard", async () => {
    const error = await failure(open({ ...files, [shard]: joinFile('{"a":1}', []) }));
    expect([error.file, error.tensor]).toEqual([shard, "a"]);
  });
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
  let memory = 0;
  await checkpoint.load(specs, {
    chunkBytes,
    onProgress: () => {
      const { heapUsed, arrayBuffers } = process.memoryUsage();
      memory = Math.max(memory, heapUsed + arrayBuffers);
    },
  });
  expect(nextRow).toBe(50_000);
  expect(inFlight).toBe(0);
  expect(largest).toBe(Math.floor(chunkBytes / rowBytes) * rowBytes);
  expect(peak).toBe(2 * largest);
  expect(memory).toBeLessThan(256 * 2 ** 20);
});

test.each([
  ["model.layers.3.mlp.gate.weight", 3],
  ["model.layers.61.embed_tokens.weight", 61],
  ["model.embed_tokens.weight", undefined],
  ["visual.model.layers.3.weight", undefined],
])("layerIndex of %s is %s", (name, index) => {
  expect(layerIndex(name)).toBe(index);
});

function decode(bytes: Uint8Array, dtype: Dtype): number[] {
  const view = new DataView(bytes.buffer, bytes.byteOffset, bytes.length);
  const read: Readonly<Record<Dtype, (at: number) => number>> = {
    F32: (at) => view.getFloat32(at, true),
    F16: (at) => decodeF16(view.getUint16(at, true)),
    BF16: (at) => decodeBf16(view.getUint16(at, true)),
    F8_E4M3: (at) => decodeE4m3(view.getUint8(at)),
    I8: (at) => view.getInt8(at),
    I32: (at) => view.getInt32(at, true),
  };
  const width = DTYPE_BYTES[dtype];
  return Array.from({ length: bytes.length / width }, (_, i) => read[dtype](i * width));
}
