/**
 * The forms of a tuning that a launch over weights has, and the one that a number of rows takes.
 *
 * @module
 */
import type { RowForm, Tuning } from "./tuning.ts";

/** The forms of a launch over weights of this dtype. */
export function formsFor(tuning: Tuning, dtype: string): readonly RowForm[] {
  return tuning.dtypeForms?.[dtype] ?? tuning.rowForms;
}

/** The same without its staged forms. */
export function withoutStaged({ rowForms, dtypeForms, ...rest }: Tuning): Tuning {
  const keep = (forms: readonly RowForm[]) => forms.filter(({ staged }) => !staged);
  const lists = Object.entries(dtypeForms ?? {}).map(([dtype, forms]) => [dtype, keep(forms)]);
  return {
    ...rest,
    rowForms: keep(rowForms),
    ...(dtypeForms !== undefined && { dtypeForms: Object.fromEntries(lists) }),
  };
}

/** A form whose launches may be too small for the adapter. */
type FormInUse = Pick<RowForm, "tokens" | "cost"> & {
  /** Passes that keep the adapter busy: fewer take as long. Default 0. */
  readonly leastPasses?: number;
};

/** The form that is through `rows` rows the soonest. */
export function formOf<F extends FormInUse>(forms: readonly F[], rows: number): F {
  const time = ({ tokens, cost, leastPasses = 0 }: F) =>
    Math.max(Math.ceil(rows / tokens), leastPasses) * cost;
  return forms.reduce((best, form) => (time(form) < time(best) ? form : best));
}
