/**
 * The same matrix of every expert, stacked in slabs that one binding can hold.
 *
 * @module
 */
import type { ExpertWeights } from "../../kernels/linear/layout.ts";
import type { DeviceMemory } from "../gpu/memory.ts";
import { MatrixPlace, type MatrixShape, placeBytes } from "./matrix_place.ts";

export class ExpertMatrices {
  readonly weights: ExpertWeights;
  /** Where each physical expert's matrix goes. */
  readonly places: readonly MatrixPlace[];

  constructor(
    memory: DeviceMemory,
    label: string,
    shape: MatrixShape & { readonly count: number },
  ) {
    const { count, format, columns, parts, layout } = shape;
    const { dtype, groupColumns } = format;
    const bytes = placeBytes(shape);
    const largest = Math.max(bytes.words, bytes.scales);
    const perSlab = Math.max(Math.min(count, Math.floor(memory.maxTensorBytes / largest)), 1);
    const places: MatrixPlace[] = [];
    const slabs: ExpertWeights["slabs"][number][] = [];
    for (let firstExpert = 0; firstExpert < count; firstExpert += perSlab) {
      const expertCount = Math.min(perSlab, count - firstExpert);
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
          ...{ words, wordsOffset: e * bytes.words },
          ...{ scales, scalesOffset: e * bytes.scales },
          ...{ bias, biasOffset: e * bytes.bias },
        };
        places.push(new MatrixPlace(memory, shape, at));
      }
    }
    const rows = places[0]!.partRows.at(-1)! + parts.at(-1)!;
    this.places = places;
    const sizes = { expertCount: count, rows, columns, slabs };
    this.weights = { ...layout, dtype, ...(groupColumns && { groupColumns }), ...sizes };
  }
}
