/**
 * The forms of launches that the checks run: those that tunings name, and others.
 *
 * @module
 */
import {
  ADAPTER_TUNINGS,
  DEFAULT_TUNING,
  PLAIN_TUNING,
  type RowForm,
  type Tuning,
} from "../../src/gpu/tuning.ts";

/** A form as a check's tuning has it. */
export type FormTuning = Readonly<Record<"tokens" | "split" | "workgroup", number>>;

const TUNINGS: readonly Tuning[] = [
  PLAIN_TUNING,
  DEFAULT_TUNING,
  ...ADAPTER_TUNINGS.map(({ tuning }) => tuning),
];

/** Every form of the table of tunings, once. */
export const TABLE_FORMS: readonly FormTuning[] = [
  ...new Map(
    TUNINGS.flatMap(({ rowForms, dtypeForms = {} }) => [
      ...rowForms,
      ...Object.values(dtypeForms).flat(),
    ]).map(({ tokens, split, workgroup }) => [
      `${tokens} ${split} ${workgroup}`,
      { tokens, split, workgroup },
    ]),
  ).values(),
];

/** The one form that a check's tuning asks for. */
export function formsOf(tuning: Readonly<Record<string, number>>): RowForm[] {
  const { tokens = 4, split = 1, workgroup = 8 } = tuning;
  return [{ tokens, split, workgroup, cost: 1 }];
}
