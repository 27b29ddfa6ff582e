import { describe, expect, test, vi } from "vitest";
import { DeviceMemory } from "../../src/gpu/memory.ts";
import type { MatrixFormat } from "../../src/layers/weights/matrix_format.ts";
import { MatrixPlace, placeBytes } from "../../src/layers/weights/matrix_place.ts";
import type { MatrixSource } from "../../src/layers/weights/matrix_source.ts";
import { matrixSpecs } from "../../src/layers/weights/matrix_specs.ts";
import { type UploadRoute, uploadRoute } from "../../src/layers/weights/upload_route.ts";

const NOTHING = { takesRows: false, takesColumns: false, quantizes: false };

describe("uploadRoute", () => {
  test.each<[Parameters<typeof uploadRoute>[0], Partial<typeof NOTHING>, UploadRoute]>([
    ["rows", {}, "host"],
    ["rows", { takesColumns: true, quantizes: true }, "host"],
    ["rows", { takesRows: true }, "gpu"],
    ["columns", {}, "check only"],
    ["columns", { takesRows: true, quantizes: true }, "check only"],
    ["columns", { takesColumns: true }, "gpu"],
    ["numbers", {}, "check only"],
    ["numbers", { takesRows: true, takesColumns: true }, "check only"],
    ["numbers", { quantizes: true }, "quantize"],
  ])("%s with %o: %s", (words, uploads, route) => {
    expect(uploadRoute(words, { ...NOTHING, ...uploads })).toBe(route);
  });
});

describe("without anything that uploads", () => {
  const specOf = (format: MatrixFormat, name: string) => {
    const memory = new DeviceMemory({
      maxBufferSize: 2 ** 20,
      maxStorageBufferBindingSize: 2 ** 20,
    });
    const shape = { format, columns: 128, parts: [16], layout: { lanes: 8 } };
    const words = memory.allocate("weights", placeBytes(shape).words, "matrix");
    const source: MatrixSource = { name: "gate_proj", split: "rows" };
    const specs = matrixSpecs(new MatrixPlace(memory, shape, { words }), 0, source);
    return specs.find((one) => one.name === name)!;
  };
  const chunk = { rowStart: 0, rows: 16, bytes: new Uint8Array(16 * 128 * 2) };

  test("rows of the place's dtype go to their place", async () => {
    const format: MatrixFormat = { dtype: "bf16", encoding: { kind: "plain", dtype: "BF16" } };
    const { destination } = specOf(format, "gate_proj.weight");
    const write = vi.spyOn(DeviceMemory.prototype, "write");
    await destination.write({ ...chunk, dtype: "BF16" });
    await destination.finish?.();
    const bytes = write.mock.calls.map(([, , data]) => data.byteLength);
    expect(bytes.reduce((sum, each) => sum + each, 0)).toBe(chunk.bytes.length);
    write.mockRestore();
  });

  test.each<[string, MatrixFormat, string]>([
    [
      "numbers that are to be quantized",
      { dtype: "int8", encoding: { kind: "plain", dtype: "BF16" } },
      "gate_proj.weight",
    ],
    [
      "words of AWQ",
      {
        dtype: "int4",
        groupColumns: 128,
        encoding: { kind: "awq", groupColumns: 128, zeroOffset: 0 },
      },
      "gate_proj.qweight",
    ],
  ])("%s are refused, not dropped", (_, format, name) => {
    const { destination } = specOf(format, name);
    expect(() => destination.write({ ...chunk, dtype: "BF16" })).toThrow(
      "Cannot load gate_proj: the model was made to check a checkpoint only",
    );
  });
});
