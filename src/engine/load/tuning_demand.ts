/**
 * Which weight matrices kernels are tuned for before a model is loaded: those that most of its
 * weights are in.
 *
 * @module
 */
import type { GroupColumns } from "../../../kernels/linear/weights/layout.ts";
import type { TunedMatrix } from "../../../kernels/tune.ts";
import type { Checkpoint } from "../../checkpoint/checkpoint.ts";
import { defineModel } from "./define_model.ts";
import { configFormats, layOut } from "./sizing.ts";

export interface TuningDemand {
  readonly matrices: readonly TunedMatrix[];
  readonly groupColumns?: GroupColumns;
}

/** Shapes of each dtype. */
const MOST_SHAPES = 3;

/**
 * Reads no weight.
 *
 * @param quantize The option `quantization`.
 * @throws {CheckpointError | UnsupportedError} naming what is wrong with the checkpoint.
 */
export async function tuningDemand(
  checkpoint: Checkpoint,
  quantize?: string,
): Promise<TuningDemand> {
  const { definition, formats } = await defineModel(checkpoint, quantize);
  // As plain numbers matrices have the shapes that they have on the GPU, however they are packed.
  const { model: plain } = layOut(definition, configFormats({ method: "none" }, { plain: "BF16" }));
  const numbers = new Map<string, { rows: number; columns: number; count: number }>();
  for (const { shape } of plain.specs) {
    const [columns = 1, rows = 1] = [...shape].reverse();
    if (shape.length < 2 || columns === 1 || rows === 1) continue;
    const known = numbers.get(`${rows}x${columns}`) ?? { rows, columns, count: 0 };
    known.count += shape.reduce((product, size) => product * size, 1);
    numbers.set(`${rows}x${columns}`, known);
  }
  const largest = [...numbers.values()].sort((a, b) => b.count - a.count).slice(0, MOST_SHAPES);
  const { weightFormats } = layOut(definition, formats()).model;
  const groupColumns = weightFormats.get("int4")?.groupColumns;
  return {
    matrices: [...weightFormats.keys()].flatMap((dtype) =>
      largest.map(({ rows, columns }) => ({ dtype, rows, columns })),
    ),
    ...(groupColumns !== undefined && { groupColumns }),
  };
}
