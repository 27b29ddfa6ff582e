import { readdirSync } from "node:fs";
import { join } from "node:path";
import { describe, expect, test } from "vitest";
import { Checkpoint } from "../../src/checkpoint/checkpoint.ts";
import { readConfig } from "../../src/checkpoint/config.ts";
import { detectQuantization } from "../../src/checkpoint/quantization.ts";
import type { WeightChunk, WeightSpec } from "../../src/checkpoint/weight_spec.ts";
import { DTYPE_BYTES, type Dtype } from "../../src/dtype.ts";
import { UnsupportedError } from "../../src/errors.ts";
import { folderSource, SHARED_MODELS } from "../support/folder_source.ts";

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

  test.each(MODELS)("%s has a quantization that is known or refused by name", async (model) => {
    const source = folderSource(join(SHARED_MODELS!, model));
    const found = detectQuantization(source, await readConfig(source));
    if (model.endsWith("-int8") || model.endsWith("-awq")) {
      await expect(found).rejects.toThrow(UnsupportedError);
    } else {
      expect((await found).method).toBe(model.endsWith("-fp8") ? "fp8_block" : "none");
    }
  });
});
