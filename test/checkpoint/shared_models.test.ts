import { readdirSync } from "node:fs";
import { join } from "node:path";
import { describe, expect, test } from "vitest";
import { Checkpoint } from "../../src/checkpoint/checkpoint.ts";
import { readConfig } from "../../src/checkpoint/config.ts";
import { detectQuantization } from "../../src/checkpoint/quantization_config/detect_quantization.ts";
import type { WeightChunk, WeightSpec } from "../../src/checkpoint/weight_spec.ts";
import { DTYPE_BYTES, type Dtype } from "../../src/dtype.ts";
import { folderSource, SHARED_MODELS } from "../support/checkpoints/folder_source.ts";

const MODELS =
  SHARED_MODELS === undefined
    ? []
    : readdirSync(SHARED_MODELS, { withFileTypes: true })
        .filter((entry) => entry.isDirectory())
        .map(({ name }) => name);

describe.skipIf(SHARED_MODELS === undefined)("shared checkpoints (../shared/data/models)", () => {
  test.each(MODELS)("%s opens, and all of it loads", async (model) => {
    const checkpoint = await Checkpoint.open(folderSource(join(SHARED_MODELS!, model)));
    expect(checkpoint.tensors.size).toBeGreaterThan(10);
    let written = 0;
    const destination = {
      write({ bytes, rows }: WeightChunk) {
        expect(rows).toBeGreaterThan(0);
        written += bytes.length;
      },
    };
    const specs: WeightSpec[] = [...checkpoint.tensors].map(([name, { shape, dtype }]) => {
      expect(Object.hasOwn(DTYPE_BYTES, dtype), dtype).toBe(true);
      return { name, shape, dtypes: [dtype as Dtype], split: "none", destination };
    });
    checkpoint.check(specs);
    await checkpoint.load(specs);
    const total = [...checkpoint.tensors.values()].reduce((sum, one) => sum + one.byteLength, 0);
    expect(written).toBe(total);
  });

  test.each(MODELS)("%s has the quantization of its name", async (model) => {
    const source = folderSource(join(SHARED_MODELS!, model));
    const found = await detectQuantization(source, await readConfig(source));
    const ending = ["fp8", "int8", "awq"].find((one) => model.endsWith(`-${one}`));
    const expected = {
      fp8: { method: "fp8_block", name: "fp8", unconverted: [] },
      int8: { method: "int8_channel", name: "w8a8_int8", unconverted: ["lm_head"] },
      awq: { method: "awq", groupSize: model.startsWith("tiny") ? 64 : 32 },
      none: { method: "none" },
    };
    expect(found).toMatchObject(expected[(ending ?? "none") as keyof typeof expected]);
  });
});
