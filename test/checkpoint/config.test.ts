import { describe, expect, test } from "vitest";
import { ConfigReader, readConfig } from "../../src/checkpoint/config.ts";
import { readOptionalText, readText } from "../../src/checkpoint/json_file.ts";
import { memorySource } from "../../src/checkpoint/memory_source.ts";
import { CheckpointError, UnsupportedError } from "../../src/errors.ts";
import { jsonFile } from "../support/checkpoints/write_checkpoint.ts";

function reader(value: unknown): ConfigReader {
  return new ConfigReader(value, { file: "config.json" });
}

function thrown(work: () => unknown): Error {
  try {
    work();
  } catch (error) {
    return error as Error;
  }
  throw new Error("nothing was thrown");
}

describe("ConfigReader", () => {
  test("reads each type", () => {
    const config = reader({
      i: 3,
      n: 1e-6,
      b: false,
      s: "x",
      l: ["a"],
      m: [1, 2],
      f: [1, 1.5],
      o: { i: 4 },
    });
    expect(config.integer("i", { min: 3, max: 3 })).toBe(3);
    expect(config.number("n")).toBe(1e-6);
    expect(config.boolean("b")).toBe(false);
    expect(config.string("s")).toBe("x");
    expect(config.strings("l")).toEqual(["a"]);
    expect(config.integers("m")).toEqual([1, 2]);
    expect(config.numbers("f")).toEqual([1, 1.5]);
    expect(config.section("o").integer("i")).toBe(4);
    config.finish();
  });

  test("takes null and absence for the same, and the fallback for both", () => {
    const config = reader({ a: null });
    for (const field of ["a", "b"]) {
      expect(config.has(field)).toBe(false);
      expect(config.integer(field, { fallback: 7 })).toBe(7);
      expect(config.section(field, { fallback: undefined })).toBe(undefined);
      const error = thrown(() => config.integer(field, { min: 1 })) as CheckpointError;
      expect(error).toBeInstanceOf(CheckpointError);
      expect(error.tensor).toBe(field);
      expect(error.message).toContain("missing, it must be a whole number of at least 1");
    }
  });

  test.each([
    ["integer", "3"],
    ["integer", 1.5],
    ["integer", 2 ** 60],
    ["integer", true],
    ["number", "1e-6"],
    ["boolean", 1],
    ["string", 1],
    ["strings", "a"],
    ["strings", [1]],
    ["integers", [1.5]],
    ["integers", {}],
    ["numbers", [1, "2"]],
    ["numbers", 1.5],
    ["section", []],
    ["section", "yarn"],
  ] as const)("%s refuses %j, naming file and field", (method, value) => {
    const inner = reader({ rope: { field: value } }).section("rope");
    const error = thrown(() => inner[method]("field")) as CheckpointError;
    expect(error).toBeInstanceOf(CheckpointError);
    expect([error.file, error.tensor]).toEqual(["config.json", "rope.field"]);
    expect(error.message).toContain(`not ${JSON.stringify(value)}`);
  });

  test("keeps to the bounds", () => {
    const config = reader({ a: 0, b: 1.5 });
    expect(thrown(() => config.integer("a", { min: 1 })).message).toContain(
      "it must be a whole number of at least 1, not 0",
    );
    expect(thrown(() => config.number("b", { max: 1 })).message).toContain("at most 1, not 1.5");
    expect(thrown(() => config.number("b", { min: 0, max: 1 })).message).toContain("from 0 to 1");
  });

  test("only refuses other values as unsupported, and takes the first for an absent field", () => {
    const config = reader({ hidden_act: "gelu", bias: true, scoring: "softmax" });
    expect(config.only("scoring", ["sigmoid", "softmax"])).toBe("softmax");
    expect(config.only("missing", ["silu"])).toBe("silu");
    expect(thrown(() => config.only("hidden_act", ["silu"])).message).toBe(
      'Cannot use hidden_act "gelu" of config.json: only "silu" is supported',
    );
    expect(thrown(() => config.only("bias", [false]))).toBeInstanceOf(UnsupportedError);
  });

  test("only refuses the absence of a required field", () => {
    const error = thrown(() => reader({}).only("bits", [4, 8], { required: true }));
    expect(error).toBeInstanceOf(CheckpointError);
    expect(error.message).toContain("(bits): the field is missing, it must be 4 or 8");
  });

  test("names lists the fields that are there, skip counts them as read", () => {
    const config = reader({ a: 1, b: null, c: [] });
    expect(config.names()).toEqual(["a", "c"]);
    config.skip("a", "d");
    expect(thrown(() => config.finish()).message).toContain("Cannot use c [] of config.json");
  });

  test("finish refuses what no reader took, and names it, in sections too", () => {
    const config = reader({ a: 1, b: 2, c: null, rope: { x: 1, type: "yarn" } });
    config.integer("a");
    const error = thrown(() => config.finish());
    expect(error).toBeInstanceOf(UnsupportedError);
    expect(error.message).toContain('b 2, rope {"x":1,"type":"yarn"} of config.json');
    config.section("rope").string("type");
    expect(thrown(() => config.finish({ ignored: ["b"] })).message).toContain("rope.x 1");
  });

  test("finish lets harmless fields pass, but not at any value nor in any place", () => {
    const harmless = { torch_dtype: "bfloat16", use_cache: true, _name_or_path: "x" };
    reader({ ...harmless, is_encoder_decoder: false, pruned_heads: {} }).finish();
    expect(thrown(() => reader({ is_encoder_decoder: true }).finish()).message).toContain(
      "is_encoder_decoder true",
    );
    const nested = reader({ rope: { use_cache: true } });
    nested.section("rope");
    expect(thrown(() => nested.finish()).message).toContain("rope.use_cache");
  });

  test("does not see inherited fields", () => {
    const config = reader({});
    expect(config.has("toString")).toBe(false);
    expect(thrown(() => reader({ constructor: 1 }).finish()).message).toContain("constructor 1");
  });
});

describe("readConfig", () => {
  test.each([
    ["a missing file", {}, "no such file"],
    ["broken JSON", { "config.json": new TextEncoder().encode("{") }, "not valid JSON"],
    ["bytes that are no text", { "config.json": Uint8Array.of(0xff) }, "not UTF-8"],
    ["a list", { "config.json": jsonFile([]) }, "must be an object"],
  ])("refuses %s", async (_, files, say) => {
    const error = await readConfig(memorySource(files as Record<string, Uint8Array>)).catch(
      (e) => e,
    );
    expect(error).toBeInstanceOf(CheckpointError);
    expect(error.file).toBe("config.json");
    expect(error.message).toContain(say);
  });

  test("reads the file", async () => {
    const config = await readConfig(memorySource({ "config.json": jsonFile({ a: 1 }) }));
    expect(config.integer("a")).toBe(1);
  });
});

test("readText and readOptionalText give text, and tell absence apart", async () => {
  const source = memorySource({ "a.txt": new TextEncoder().encode("é") });
  expect(await readText(source, "a.txt")).toBe("é");
  expect(await readOptionalText(source, "b.txt")).toBe(undefined);
  await expect(readText(source, "b.txt")).rejects.toThrow(CheckpointError);
});
