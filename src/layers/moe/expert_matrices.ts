/**
 * The same matrix of every expert, stacked in slabs that one binding can hold.
 *
 * @module
 */
import type { ExpertWeights } from "../../../kernels/linear/linear_layout.ts";
import type { DeviceMemory } from "../../gpu/memory.ts";
import type { SlotRun } from "../../parallel/experts/expert_layout.ts";
import { MatrixPlace, type MatrixShape, placeBytes } from "../weights/matrix_place.ts";

export class ExpertMatrices {
  readonly weights: ExpertWeights;
  /** Where the matrix of each physical expert of this rank goes. */
  readonly places: ReadonlyMap<number, MatrixPlace>;

  /** @param shape `total` counts the physical experts of all ranks, `runs` are this one's. */
  constructor(
    memory: DeviceMemory,
    label: string,
    shape: MatrixShape & { readonly total: number; readonly runs: readonly SlotRun[] },
  ) {
    const { total, runs, format, columns, parts, layout } = shape;
    const { dtype, groupColumns } = format;
    const bytes = placeBytes(shape);
    const largest = Math.max(bytes.words, bytes.scales);
    const most = Math.max(Math.floor(memory.maxTensorBytes / largest), 1);
    const places = new Map<number, MatrixPlace>();
    const slabs: ExpertWeights["slabs"][number][] = [];
    for (const { first: firstExpert, count: expertCount } of cutRuns(runs, most)) {
      const name = `${label} from ${firstExpert}`;
      const allocate = (each: number, what: string) =>
        each === 0 ? undefined : memory.allocate("weights", expertCount * each, name + what);
      const words = memory.allocate("weights", expertCount * bytes.words, name);
      const scales = allocate(bytes.scales, " scales");
      const bias = allocate(bytes.bias, " bias");
      slabs.push({
        firstExpert,
        expertCount,
        words,
        ...(scales && { scales }),
        ...(bias && { bias }),
      });
      for (let e = 0; e < expertCount; e++) {
        const at = {
          words,
          wordsOffset: e * bytes.words,
          scales,
          scalesOffset: e * bytes.scales,
          bias,
          biasOffset: e * bytes.bias,
        };
        places.set(firstExpert + e, new MatrixPlace(memory, shape, at));
      }
    }
    const [place] = places.values();
    const rows = place!.partRows.at(-1)! + parts.at(-1)!;
    this.places = places;
    const sizes = { expertCount: total, rows, columns, slabs };
    this.weights = { ...layout, dtype, ...(groupColumns && { groupColumns }), ...sizes };
  }
}

/** The same experts in runs of at most so many. */
function cutRuns(runs: readonly SlotRun[], most: number): SlotRun[] {
  return runs.flatMap(({ first, count }) =>
    Array.from({ length: Math.ceil(count / most) }, (_, i) => ({
      first: first + i * most,
      count: Math.min(most, count - i * most),
    })),
  );
}
