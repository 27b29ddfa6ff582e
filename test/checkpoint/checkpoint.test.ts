import { describe, expect, test } from "vitest";
import { Checkpoint } from "../../src/checkpoint/checkpoint.ts";
import { memorySource } from "../../src/checkpoint/memory_source.ts";
import { layerIndex, type WeightSpec } from "../../src/checkpoint/weight_spec.ts";
import { CheckpointError } from "../../src/errors.ts";
import { checkpointFailure } from "../support/checkpoints/checkpoint_failure.ts";
import { type Collector, spec, TENSORS } from "../support/checkpoints/collect_weights.ts";
import {
  checkpointFiles,
  joinFile,
  jsonFile,
  safetensorsFile,
} from "../support/checkpoints/write_checkpoint.ts";

const INDEX = "model.safetensors.index.json";

async function open(files: Record<string, Uint8Array>): Promise<Checkpoint> {
  return Checkpoint.open(memorySource(files));
}

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
    const odd = { name: "odd", shape: [1], dtype: "U64", bytes };
    const checkpoint = await open({ "model.safetensors": safetensorsFile([odd]) });
    const error = refusal(checkpoint, [spec({ name: "odd", shape: [1], dtype: "F32" })]);
    expect(error.message).toContain("it has the unsupported dtype U64, the model wants F32");
    checkpoint.check([], { ignored: (name) => name === "odd" });
  });

  test("names tensors that the model does not want, but for ignored ones", async () => {
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
    const error = await checkpointFailure(open({ "config.json": jsonFile({}) }));
    expect(error.message).toContain("weights not fully downloaded: memory has neither");
  });

  test("lists every missing shard", async () => {
    const { [INDEX]: index, [shard]: second } = files;
    const error = await checkpointFailure(open({ [INDEX]: index!, [shard]: second! }));
    expect(error.file).toBe(INDEX);
    expect(error.message).toContain(
      "weights not fully downloaded: missing model-00001-of-00003.safetensors, model-00003-of-00003.safetensors",
    );
  });

  test("takes a shard's name for a file name only", async () => {
    const index = jsonFile({ weight_map: { a: "../../etc/passwd" } });
    expect((await checkpointFailure(open({ [INDEX]: index }))).message).toContain(
      "missing ../../etc/passwd",
    );
  });

  test("names a shard that is cut short", async () => {
    for (const lost of [1, 20, files[shard]!.length - 4]) {
      const bytes = files[shard]!.slice(0, -lost);
      const error = await checkpointFailure(open({ ...files, [shard]: bytes }));
      expect(error.file).toBe(shard);
      expect(error.message).toContain("weights not fully downloaded");
    }
  });

  test("names a tensor that is not in the shard the index says", async () => {
    const index = JSON.parse(new TextDecoder().decode(files[INDEX]!));
    index.weight_map[TENSORS[0]!.name] = shard;
    const error = await checkpointFailure(open({ ...files, [INDEX]: jsonFile(index) }));
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
    const error = await checkpointFailure(
      open({ ...files, [INDEX]: new TextEncoder().encode(text) }),
    );
    expect([error.file, error.tensor]).toEqual([INDEX, tensor]);
    expect(error.message).toContain(say);
  });

  test("names a damaged shard", async () => {
    const error = await checkpointFailure(open({ ...files, [shard]: joinFile('{"a":1}', []) }));
    expect([error.file, error.tensor]).toEqual([shard, "a"]);
  });
});

test.each([
  ["model.layers.3.mlp.gate.weight", 3],
  ["model.layers.61.embed_tokens.weight", 61],
  ["model.embed_tokens.weight", undefined],
  ["visual.model.layers.3.weight", undefined],
])("layerIndex of %s is %s", (name, index) => {
  expect(layerIndex(name)).toBe(index);
});
