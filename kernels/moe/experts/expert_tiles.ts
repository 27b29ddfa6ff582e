/**
 * How a kernel over routed pairs is launched, by pair and by tile: its forms and its grid.
 *
 * @module
 */
import { KernelError } from "../../../src/errors.ts";
import type { BoundKernel } from "../../../src/gpu/kernel.ts";
import type { DeviceMemory } from "../../../src/gpu/memory.ts";
import type { IndirectGrid } from "../../../src/gpu/recorded_launch.ts";
import { formOf } from "../../../src/gpu/row_forms.ts";
import { GRID_USAGE, GRID_WORDS, type Tensor } from "../../../src/gpu/tensor.ts";
import { PAIR_TILE, type RowForm } from "../../../src/gpu/tuning.ts";
import { type LaunchForm, launchForms, takenForms } from "../../linear/weights/launch_form.ts";
import type { WeightDtype, WeightLayout } from "../../linear/weights/layout.ts";
import { tileLimit } from "../route/sort.ts";

/** Pairs of a tile whose form is not staged. */
export function pairTile({ tuning }: Pick<WeightLayout, "tuning">): number {
  return tuning?.pairTile ?? PAIR_TILE;
}

const GRID_BYTES = 4 * GRID_WORDS;

type FormWeights = WeightLayout & { readonly dtype: WeightDtype };

/** A number of pairs that tiles may have, and the time that one takes. */
export type TileSize = Pick<RowForm, "tokens" | "cost">;

/**
 * The sizes of tiles that all of these weights have forms for: `pairTile()`, and those of staged
 * forms. `formOf` chooses among them by the pairs of an expert.
 */
export function tileSizes(
  matrices: readonly {
    readonly weights: FormWeights;
    /** Whether the kernel has staged forms for them. */
    readonly stages: boolean;
  }[],
  /** Pairs of an expert in the largest step, on average. */
  mostPairs: number,
): readonly TileSize[] {
  const [forms, ...others] = matrices.map(({ weights, stages }) =>
    launchForms(weights, { stages }),
  );
  const isCommon = ({ tokens, staged }: LaunchForm) =>
    staged === true && others.every((list) => list.some((form) => form.tokens === tokens));
  const pairs = pairTile(matrices[0]!.weights);
  const few = forms!.filter(({ tokens }) => tokens <= pairs);
  const { tokens, cost } = formOf(few, pairs);
  const least = { tokens: pairs, cost: Math.ceil(pairs / tokens) * cost };
  return takenForms([least, ...forms!.filter(isCommon)], Math.ceil(mostPairs));
}

/** The forms of the launches over pairs, one at a time, and over tiles of each size. */
export function tileForms(
  weights: FormWeights,
  options: {
    readonly tileSizes: readonly number[];
    readonly forms?: readonly RowForm[] | undefined;
    readonly rowLanes?: number | undefined;
  },
): { readonly byPair: LaunchForm; readonly byTile: readonly LaunchForm[] } {
  const { tileSizes: sizes, forms, rowLanes } = options;
  const tiled = launchForms(weights, { rowLanes }, forms);
  const byTile = sizes.map((tokens) => {
    const found = tiled.find((form) => form.tokens === tokens);
    if (found !== undefined) return found;
    // Where the tuning has no form of this size, one of fewer rows, with as many invocations for them.
    const smaller = tiled.findLast((form) => form.staged !== true && form.tokens <= tokens)!;
    const split = Math.max((smaller.split * smaller.tokens) / tokens, 1);
    return launchForms(weights, { rowLanes }, [{ ...smaller, tokens, split }])[0]!;
  });
  return { byPair: tiled[0]!, byTile };
}

/** Whether a launch over tiles in this form leaves out the rows that a tile has no pairs for. */
export function skipsRows(weights: WeightLayout, { tokens, staged }: LaunchForm): boolean {
  return weights.tuning?.sequential === true && tokens > 1 && staged !== true;
}

/** Grids of launches over tiles, as high as `sortPairs` says when they run. */
export class TileGrids {
  readonly tensor: Tensor;
  readonly #memory: DeviceMemory;
  #taken = 0;

  /** @param count Launches, of which those over slabs of one matrix are one. */
  constructor(memory: DeviceMemory, count: number, label: string) {
    this.tensor = memory.allocate("activations", count * GRID_BYTES, label, GRID_USAGE);
    this.#memory = memory;
  }

  /** The grid of one more launch, so many workgroups wide. */
  take(width: number): IndirectGrid {
    const offset = this.#taken * GRID_BYTES;
    this.#taken += 1;
    this.#memory.write(this.tensor, offset, Uint32Array.of(width, 0, 1, 0));
    return { buffer: this.tensor.buffer, offset: this.tensor.offset + offset };
  }
}

/** The launches of a form, one for each slab. */
export interface SlabLaunches<P extends string> {
  readonly form: LaunchForm;
  readonly slabs: readonly BoundKernel<P>[];
}

/** Records every slab's launch over pairs, or over tiles: these name their size. */
export function recordTiles<P extends string>(options: {
  readonly byPair: SlabLaunches<P> | undefined;
  /** One for each size of tiles. */
  readonly byTile: readonly SlabLaunches<P>[];
  /** Workgroups along the outputs. */
  readonly width: (form: LaunchForm) => number;
  readonly slots: number;
  readonly expertCount: number;
  /** Default: launches as high as there may be tiles, whose workgroups return at once without one. */
  readonly grids?: TileGrids | undefined;
  /** Called when all slabs were recorded in this form. */
  readonly after?: (form: LaunchForm, rows: number) => void;
}): (rows: number, tileSize?: number) => void {
  const { byPair, byTile, width, slots, expertCount, after } = options;
  const tiled = byTile.map((one) => ({ ...one, grid: options.grids?.take(width(one.form)) }));
  const alone = byPair && { ...byPair, grid: undefined };
  return (rows, tileSize) => {
    const launch = tiled.find(({ form }) => form.tokens === tileSize) ?? alone;
    if (launch === undefined) throw new KernelError("moe", "a launch over pairs was not bound");
    const { form, slabs, grid } = launch;
    const height =
      tileSize === undefined ? rows * slots : tileLimit(rows * slots, expertCount, tileSize);
    for (const bound of slabs) {
      if (grid === undefined) bound.record(width(form), height);
      else bound.recordIndirect(grid, width(form), height);
    }
    after?.(form, rows);
  };
}
