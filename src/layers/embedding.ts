/**
 * The token table, in slabs of rows that one binding can hold.
 *
 * @module
 */
import { type EmbeddingSlab, embedding } from "../../kernels/embedding/embedding.ts";
import { WEIGHT_BYTES } from "../../kernels/linear/weights/layout.ts";
import type { WeightSpec } from "../checkpoint/weight_spec.ts";
import { UnsupportedError } from "../errors.ts";
import type { Plan } from "../gpu/plan.ts";
import type { Tensor } from "../gpu/tensor.ts";
import type { Step } from "./batch.ts";
import type { LayerContext } from "./layer_context.ts";
import type { StepTensors } from "./step_tensors.ts";

/** Rows of tokens, kept as the checkpoint holds them. */
export class Embedding {
  readonly specs: readonly WeightSpec[];
  readonly #width: number;
  readonly #dtype: "BF16" | "F16" | "F32";
  readonly #slabs: readonly EmbeddingSlab[];

  /** @param options `name` is the tensor's without ".weight". */
  constructor(
    { memory, formats }: Pick<LayerContext, "memory" | "formats">,
    options: {
      readonly name: string;
      readonly vocabularySize: number;
      readonly hiddenSize: number;
    },
  ) {
    const { name, vocabularySize, hiddenSize } = options;
    const { dtype, encoding } = formats.published(name);
    if (encoding.kind !== "plain" || (dtype !== "bf16" && dtype !== "f16" && dtype !== "f32")) {
      throw new UnsupportedError(`${name} in ${dtype.toUpperCase()}`);
    }
    const rowBytes = hiddenSize * WEIGHT_BYTES[dtype];
    if (rowBytes % 4 !== 0) {
      const feature = `hidden_size ${hiddenSize} with ${name} in ${encoding.dtype}`;
      throw new UnsupportedError(feature, "it must be even");
    }
    const slabRows = Math.min(vocabularySize, Math.floor(memory.maxTensorBytes / rowBytes));
    const slabs: EmbeddingSlab[] = [];
    for (let firstRow = 0; firstRow < vocabularySize; firstRow += slabRows) {
      const rowCount = Math.min(slabRows, vocabularySize - firstRow);
      const table = memory.allocate("weights", rowCount * rowBytes, `${name} from row ${firstRow}`);
      slabs.push({ firstRow, rowCount, table });
    }
    this.#width = hiddenSize;
    this.#dtype = dtype.toUpperCase() as Uppercase<typeof dtype>;
    this.#slabs = slabs;
    this.specs = [
      {
        name: `${name}.weight`,
        shape: [vocabularySize, hiddenSize],
        dtypes: [encoding.dtype],
        // Which rows are wanted may be known on the GPU only: an exchange could not choose.
        split: "none",
        destination: {
          write: ({ rowStart, rows, bytes }) => {
            for (const { firstRow, rowCount, table } of slabs) {
              const first = Math.max(rowStart, firstRow);
              const end = Math.min(rowStart + rows, firstRow + rowCount);
              if (first >= end) continue;
              const part = bytes.subarray(
                (first - rowStart) * rowBytes,
                (end - rowStart) * rowBytes,
              );
              memory.write(table, (first - firstRow) * rowBytes, part);
            }
          },
        },
      },
    ];
  }

  /** Adds one launch a slab. */
  compile(
    plan: Plan<Step>,
    options: {
      readonly inputs: Pick<StepTensors, "rows" | "sampled" | "external">;
      /** Words of one of `rows`, of which the first is the source. Default 4. */
      readonly rowWords?: number;
      readonly out: Tensor;
      readonly stride: number;
    },
  ): void {
    const { rowWords = 4 } = options;
    const record = embedding(plan.recorder, {
      rows: options.inputs.rows,
      rowWords,
      sampled: options.inputs.sampled,
      external: options.inputs.external,
      slabs: this.#slabs,
      out: options.out,
      stride: options.stride,
      cols: this.#width,
      dtype: this.#dtype,
    });
    plan.add((step) => record(step.rows));
  }
}
