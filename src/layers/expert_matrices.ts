/**
 * The same matrix of every expert, stacked in slabs that one binding can hold.
 *
 * @module
 */
import type { ExpertWeights } from "../../kernels/linear/layout.ts";
import type { DeviceMemory } from "../gpu/memory.ts";
import { MatrixPlace, type MatrixShape, placeBytes } from "./matrix_destination.ts";

export class ExpertMatrices {
  readonly weights: ExpertWeights;
  /** Where each physical expert's matrix goes. */
  readonly places: readonly MatrixPlace[];

  constructor(
    memory: DeviceMemory,
    label: string,
    shape: MatrixShape & { readonly count: number },
  ) {
    const { count, dtype, columns, parts, layout } = shape;
    const bytes = placeBytes(shape);
    const perSlab = Math.max(Math.min(count, Math.floor(memory.maxTensorBytes / bytes.words)), 1);
    const places: MatrixPlace[] = [];
    const slabs: ExpertWeights["slabs"][number][] = [];
    for (let firstExpert = 0; firstExpert < count; firstExpert += perSlab) {
      const expertCount = Math.min(perSlab, count - firstExpert);
      const name = `${label} from ${firstExpert}`;
      const words = memory.allocate("weights", expertCount * bytes.words, name);
      const scales =
        bytes.scales === 0
          ? undefined
          : memory.allocate("weights", expertCount * bytes.scales, `${name} scales`);
      slabs.push({ firstExpert, expertCount, words, ...(scales && { scales }) });
      for (let e = 0; e < expertCount; e++) {
        const at = { words, wordsOffset: e * bytes.words, scales, scalesOffset: e * bytes.scales };
        places.push(new MatrixPlace(memory, shape, at));
      }
    }
    const rows = places[0]!.partRows.at(-1)! + parts.at(-1)!;
    this.places = places;
    this.weights = { ...layout, dtype, expertCount: count, rows, columns, slabs };
  }
}
