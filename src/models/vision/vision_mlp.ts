/**
 * The MLP of a vision tower's layer: two linears with a GELU between them, or a gated one.
 *
 * @module
 */
import { gelu } from "../../../kernels/vision/gelu.ts";
import type { WeightSpec } from "../../checkpoint/weight_spec.ts";
import type { Plan } from "../../gpu/plan.ts";
import type { Step } from "../../layers/batch.ts";
import type { LayerContext } from "../../layers/layer_context.ts";
import { Mlp } from "../../layers/mlp.ts";
import type { VisionRows } from "./vision_rows.ts";
import type { VisionShape } from "./vision_shape.ts";
import { visionLinear } from "./vision_weights.ts";

export type VisionMlpNames =
  | { readonly kind: "plain"; readonly up: string; readonly down: string }
  /** With `gate_proj`, `up_proj` and `down_proj`. */
  | { readonly kind: "gated"; readonly name: string };

export interface CompiledVisionMlp {
  readonly specs: readonly WeightSpec[];
  /** Appends the launches from `normed` to `output`. */
  compile(plan: Plan<Step>, rows: VisionRows): void;
}

/** @param options `name`: of the layer, in front of its tensors' names. */
export function createVisionMlp(
  context: LayerContext,
  shape: VisionShape,
  { name, names }: { readonly name: string; readonly names: VisionMlpNames },
): CompiledVisionMlp {
  return names.kind === "gated"
    ? gatedMlp(context, shape, `${name}.${names.name}`)
    : plainMlp(context, shape, [`${name}.${names.up}`, `${name}.${names.down}`]);
}

function plainMlp(
  context: LayerContext,
  { hiddenSize, intermediate, activation: form }: VisionShape,
  [upName, downName]: readonly [string, string],
): CompiledVisionMlp {
  const up = visionLinear(context, upName, {
    rows: intermediate,
    columns: hiddenSize,
    bias: true,
  });
  const down = visionLinear(context, downName, {
    rows: hiddenSize,
    columns: intermediate,
    bias: true,
  });
  return {
    specs: [...up.specs, ...down.specs],
    compile(plan, { normed, inner, innerStride, output }) {
      const { recorder } = plan;
      const phase = "decode";
      const wide = { xStride: hiddenSize, outStride: innerStride, phase } as const;
      const narrow = { xStride: innerStride, outStride: hiddenSize, phase } as const;
      const raise = up.bind(recorder, { x: normed, out: inner, ...wide });
      const activate = gelu(recorder, { x: inner, form });
      const lower = down.bind(recorder, { x: inner, out: output, ...narrow });
      plan.add(({ rows }) => {
        raise(rows);
        activate(rows * innerStride);
        lower(rows);
      });
    },
  };
}

function gatedMlp(
  context: LayerContext,
  { hiddenSize, intermediate }: VisionShape,
  name: string,
): CompiledVisionMlp {
  const formats = context.formats.asPublished();
  const mlp = new Mlp({ ...context, formats }, { name, hiddenSize, intermediate, bias: true });
  return {
    specs: mlp.specs,
    compile(plan, { normed, inner, innerStride, output }) {
      mlp.compile(plan, {
        normed: { x: normed, xStride: hiddenSize },
        quantized: undefined,
        rounding: undefined,
        output,
        hiddenStride: hiddenSize,
        intermediate: inner,
        intermediateStride: innerStride,
      });
    },
  };
}
