/**
 * The target's ids of the tokens that a draft head knows.
 *
 * @module
 */
import type { WeightSpec } from "../../checkpoint/weight_spec.ts";
import { CheckpointError } from "../../errors.ts";
import type { DeviceMemory } from "../../gpu/memory.ts";
import type { Tensor } from "../../gpu/tensor.ts";

const NAME = "d2t";
const WORD_BYTES = 4;

export class TargetIds {
  readonly count: number;
  /** `[count]` u32 */
  readonly tensor: Tensor;
  readonly spec: WeightSpec;

  /** @param options `vocabularySize`: the target's. */
  constructor(
    memory: DeviceMemory,
    { count, vocabularySize }: { readonly count: number; readonly vocabularySize: number },
  ) {
    const tensor = memory.allocate("weights", count * WORD_BYTES, NAME);
    this.count = count;
    this.tensor = tensor;
    this.spec = {
      name: NAME,
      shape: [count],
      dtypes: ["I64", "I32"],
      split: "none",
      destination: {
        write: ({ dtype, rowStart, rows, bytes }) => {
          const view = new DataView(bytes.buffer, bytes.byteOffset, bytes.byteLength);
          const ids = Uint32Array.from({ length: rows }, (_, i) => {
            // The file has how far each token of the target is behind the draft's.
            const far =
              dtype === "I64" ? Number(view.getBigInt64(8 * i, true)) : view.getInt32(4 * i, true);
            const id = rowStart + i + far;
            if (id >= 0 && id < vocabularySize) return id;
            const problem = `token ${rowStart + i} is ${id} of ${vocabularySize} tokens`;
            throw new CheckpointError("weights", problem, NAME);
          });
          memory.write(tensor, rowStart * WORD_BYTES, ids);
        },
      },
    };
  }
}
