import { readFileSync } from "node:fs";
import { join } from "node:path";
import { describe, expect, test } from "vitest";
import type { Tensor } from "../../src/gpu/tensor.ts";
import { tuningFor } from "../../src/gpu/tuning.ts";
import { SHARED_MODELS } from "../support/checkpoints/folder_source.ts";
import { device, download, smallestCaseOnly } from "../support/devices/gpu.ts";
import { ModelSession } from "../support/engines/model_session.ts";

interface Recorded {
  readonly model: string;
  readonly input_ids: readonly number[];
  readonly order: readonly string[];
  readonly tensors: Readonly<
    Record<
      string,
      { readonly dtype: string; readonly shape: readonly number[]; readonly b64: string }
    >
  >;
}

const FILES = [
  "intermediates-fp8.json",
  "intermediates-bf16.json",
  "mini-deepseek-v3-fp8.intermediates.json",
  "mini-deepseek-v2-lite.intermediates.json",
  "mini-llama.intermediates.json",
  "mini-llama-int8.intermediates.json",
  "mini-llama-awq.intermediates.json",
  "mini-qwen3.intermediates.json",
  "mini-qwen3-moe.intermediates.json",
];

const SMALLEST = /^mini-(deepseek-v2-lite|llama)\./;

/** Shared experts that follow the routed choices of a row. */
const SHARED_EXPERTS: Readonly<Record<string, number>> = {
  "mini-deepseek-v2-lite": 2,
  "mini-qwen3-moe": 0,
};

/** Largest difference relative to the largest value. */
function error(got: Float32Array, want: Float32Array): number {
  const largest = want.reduce((most, value) => Math.max(most, Math.abs(value)), 0);
  return want.reduce((most, value, i) => Math.max(most, Math.abs(got[i]! - value)), 0) / largest;
}

describe.skipIf(SHARED_MODELS === undefined)("activations (needs ../shared/data)", () => {
  test.each(smallestCaseOnly ? FILES.filter((file) => SMALLEST.test(file)) : FILES)(
    "%s: every recorded tensor",
    async (file) => {
      const path = join(SHARED_MODELS!, "../golden", file);
      const recorded = JSON.parse(readFileSync(path, "utf8")) as Recorded;
      const { model, input_ids: ids, tensors } = recorded;
      // Blocks that add to the residual stream themselves leave nothing else to look at.
      const tuning = { ...tuningFor(device.adapterInfo), foldsNorms: false };
      const drafts = recorded.order.includes("mtp.eh_proj");
      const session = await ModelSession.open(model, {
        quantizeActivations: false,
        tuning,
        ...(drafts && { maxDrafts: 1, maxRunningRequests: ids.length }),
      });
      const { runner } = session.loaded;
      const taps = new Map<string, GPUBuffer>();
      const sequence = session.sequence(ids);
      const part = { sequence, phase: "prefill", count: ids.length } as const;
      // The golden drafts are behind all rows whose next token is known.
      const drafted = ids.slice(1).map((_, row) => {
        return { sequence: 0, firstLogitRow: row, logitRows: 1 };
      });
      const onTap = (name: string, tensor: Tensor) => {
        const usage = GPUBufferUsage.COPY_SRC | GPUBufferUsage.COPY_DST;
        const buffer = runner.recorder.device.createBuffer({ size: tensor.size, usage });
        runner.recorder.copy(tensor, { buffer, offset: 0, size: tensor.size }, tensor.size);
        taps.set(name, buffer);
      };
      if (drafts) await session.draft([part], { steps: 1, drafted, onTap });
      else await session.run([part], { onTap });

      const values = async (name: string) => new Float32Array(await download(taps.get(name)!));
      const integers = async (name: string) => new Uint32Array(await download(taps.get(name)!));
      const compared: string[] = [];
      for (const name of recorded.order) {
        const { shape, b64 } = tensors[name]!;
        const bytes = Buffer.from(b64, "base64");
        const [rows, width] = [shape.length > 1 ? shape[0]! : 1, shape.at(-1)!];
        const floats = () => new Float32Array(Uint8Array.from(bytes).buffer);
        // 1e-4 in the first layer, growing no faster than 10x over the model.
        const bound = name.startsWith("layer0") || name === "embedding" ? 1e-4 : 1e-3;
        const [, layer, what] = /^(layer\d+)\.(\w+)$/.exec(name) ?? [];
        if (what === "topk_indices" || what === "topk_weights") {
          const routed = width;
          const tap = `${layer}.${what === "topk_indices" ? "experts" : "expert_weights"}`;
          if (!taps.has(tap)) continue;
          const slots = routed + (SHARED_EXPERTS[model] ?? 1);
          const pick = (all: ArrayLike<number>) =>
            Array.from(
              { length: rows * routed },
              (_, i) => all[Math.floor(i / routed) * slots + (i % routed)]!,
            );
          if (what === "topk_weights") {
            expect(error(Float32Array.from(pick(await values(tap))), floats()), name).toBeLessThan(
              bound,
            );
          } else {
            const want =
              shape.length === 2 && bytes.length === rows * routed * 4
                ? Array.from(new Int32Array(Uint8Array.from(bytes).buffer))
                : Array.from(new BigInt64Array(Uint8Array.from(bytes).buffer), Number);
            expect(pick(await integers(tap)), name).toEqual(want);
          }
          compared.push(name);
          continue;
        }
        if (name === "logits_last" || name === "mtp.logits_last") {
          const isDraft = name.startsWith("mtp");
          const first = ((isDraft ? drafted : ids).length - 1) * runner.logitsStride;
          const all = await values(isDraft ? "mtp.logits" : "logits");
          const last = all.subarray(first, first + width);
          expect(error(last, floats()), name).toBeLessThan(bound);
          compared.push(name);
          continue;
        }
        if (!taps.has(name)) continue;
        const got = await values(name);
        // A tap has the stride of its buffer; every recorded width here is a multiple of 4.
        expect(width % 4).toBe(0);
        expect(error(got.subarray(0, rows * width), floats()), name).toBeLessThan(bound);
        compared.push(name);
      }
      // What is not compared: the last layer's sum, which the final norm takes in, that of the
      // multi-token-prediction layer for the same reason, and router scores, a function of the logits.
      const skipped = recorded.order.filter((name) => !compared.includes(name));
      const layers = session.loaded.definition.shape.layers;
      for (const name of skipped) {
        expect(name).toMatch(new RegExp(`router_scores|^layer(${layers - 1}|${layers}).out$`));
      }
      session.close();
      for (const buffer of taps.values()) buffer.destroy();
    },
  );
});
