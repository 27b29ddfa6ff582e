/**
 * The launches that a step takes of a layer's list, by name.
 *
 * @module
 */
import { EMPTY_STEP, type Step } from "../../src/layers/batch.ts";
import type { LayerLaunch } from "../../src/layers/launches/launch_list.ts";

export function namesIn<Name extends string>(
  list: readonly LayerLaunch<Name>[],
  step: Step,
): Name[] {
  return list.filter(({ takes }) => takes(step)).map(({ name }) => name);
}

const pass = { keys: 8, firstItem: 0, items: 1 };

/** Steps of generated rows, of rows of prompts, and of both. */
export const STEPS = {
  one: { ...EMPTY_STEP, rows: 1, decodeRows: 1 },
  far: { ...EMPTY_STEP, rows: 1, decodeRows: 1, decodeSplits: 3 },
  few: { ...EMPTY_STEP, rows: 4, decodeRows: 4 },
  /** Rows of one sequence, of which one sees the keys of others. */
  several: { ...EMPTY_STEP, rows: 2, decodeRows: 2, decodesOne: false },
  /** Rows of draft trees. */
  tree: { ...EMPTY_STEP, rows: 4, decodeRows: 4, decodesOne: false, hasTrees: true },
  many: { ...EMPTY_STEP, rows: 64, decodeRows: 64 },
  prompt: { ...EMPTY_STEP, rows: 40, passes: [pass] },
  mixed: { ...EMPTY_STEP, rows: 41, decodeRows: 1, decodeSplits: 3, passes: [pass] },
} as const satisfies Readonly<Record<string, Step>>;

export type StepKind = keyof typeof STEPS;
