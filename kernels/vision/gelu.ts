import { Kernel } from "../../src/gpu/kernel.ts";
import type { Recorder } from "../../src/gpu/recorder.ts";
import type { Tensor } from "../../src/gpu/tensor.ts";
import source from "./gelu.wgsl?raw";

const WORKGROUP_SIZE = 64;
const QUAD = 4;
/** Workgroups of a row of the grid: more are further rows. */
const GRID_ROW = 32768;

/** As an approximation by tanh, by the error function, or by a logistic function alone. */
export type GeluForm = "tanh" | "erf" | "quick";
const FORMS: readonly GeluForm[] = ["tanh", "erf", "quick"];

const kernel = new Kernel({
  name: "vision/gelu",
  source,
  buffers: ["x"],
  params: ["quads"],
});

export interface GeluOptions {
  /** `[elements]` f32, a multiple of 4: each becomes its GELU. */
  readonly x: Tensor;
  /** Default tanh. */
  readonly form?: GeluForm;
}

/**
 * `x = x * Phi(x)`.
 *
 * Binds the tensor now; the returned function records one launch over `elements` elements, a multiple
 * of 4.
 */
export function gelu(
  recorder: Recorder,
  { x, form = "tanh" }: GeluOptions,
): (elements: number) => void {
  let quads = 0;
  const bound = kernel.bind(
    recorder,
    { x },
    {
      constants: { FORM: FORMS.indexOf(form) },
      params: { quads },
      cost: () => ({ bytes: quads * QUAD * 8, flops: quads * QUAD * 9 }),
    },
  );
  return (elements) => {
    quads = elements / QUAD;
    bound.set("quads", quads);
    const groups = Math.ceil(quads / WORKGROUP_SIZE);
    bound.record(Math.min(groups, GRID_ROW), Math.ceil(groups / GRID_ROW));
  };
}
