import { existsSync } from "node:fs";
import { describe, expect, test } from "vitest";
import { runCommand } from "../../../src/node/command.ts";
import { KV_CACHE_DTYPES, kvCacheDtype } from "../../../src/node/options/kv_cache_dtype.ts";
import { defaultModelPath } from "../../../src/node/package_root.ts";
import { startEngine } from "../../../src/node/serve/start_engine.ts";
import { randomGqa } from "../../support/checkpoints/random_gqa.ts";

const PLAIN = randomGqa({});
const FP8 = randomGqa({ storage: { kind: "FP8", per: "block" } });

describe("--kv-cache-dtype", () => {
  test.each([
    ["auto", undefined],
    ["bf16", "bf16"],
    ["bfloat16", "bf16"],
    ["f32", "f32"],
    ["float32", "f32"],
    ["fp8_e4m3", "fp8_e4m3"],
    ["fp8_e5m2", "fp8_e5m2"],
  ] as const)("%s is %s", async (given, dtype) => {
    expect(await kvCacheDtype(given, PLAIN)).toBe(dtype);
  });

  const rounding = KV_CACHE_DTYPES.filter((value) => !["auto", "f32", "float32"].includes(value));
  test.each(rounding)("%s is refused for weights that are FP8", async (given) => {
    await expect(kvCacheDtype(given, FP8)).rejects.toThrow(
      `Cannot use option --kv-cache-dtype ${given}: for weights that are already FP8 it must be auto or f32`,
    );
  });

  test("auto and f32 go with any weights", async () => {
    expect(await kvCacheDtype("auto", FP8)).toBeUndefined();
    expect(await kvCacheDtype("f32", FP8)).toBe("f32");
    expect(await kvCacheDtype("float32", FP8)).toBe("f32");
  });
});

test.skipIf(!existsSync(defaultModelPath()))(
  "a start with weights that are FP8 and the option ends before a device is opened",
  async () => {
    let stderr = "";
    const code = await runCommand(
      ["launch_server", "--port", "0", "--kv-cache-dtype", "fp8_e4m3"],
      {
        startEngine,
        stdout: { write: () => {} },
        stderr: { write: (text: string) => (stderr += text) },
      },
    );
    expect(code).not.toBe(0);
    expect(stderr).toContain(
      "Cannot use option --kv-cache-dtype fp8_e4m3: for weights that are already FP8 it must be auto or f32",
    );
  },
);
