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
  STAGED_TOKENS,
  type Tuning,
} from "../../../src/gpu/tuning.ts";

/** A form as a check's tuning has it; staged forms have a `staged` of 1, and all `ownTokens`. */
export type FormTuning = Readonly<
  Record<"tokens" | "split" | "workgroup" | "staged" | "ownTokens", number>
>;

/** The form of a tuning as a check's tuning has it. */
export function formTuning({
  tokens,
  split,
  workgroup,
  staged = false,
  ownTokens = STAGED_TOKENS,
}: RowForm): FormTuning {
  return { tokens, split, workgroup, staged: staged ? 1 : 0, ownTokens };
}

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
    ])
      .map(formTuning)
      .map((form) => [Object.values(form).join(" "), form]),
  ).values(),
];

/** The same, those of one row last: faults in how rows are told apart need several. */
export const FORMS_OF_ROWS: readonly FormTuning[] = [...TABLE_FORMS].sort(
  (a, b) => Number(a.tokens === 1) - Number(b.tokens === 1),
);

/** Those of kernels that have no staged forms. */
export const UNSTAGED_FORMS = TABLE_FORMS.filter(({ staged }) => staged === 0);

/** Those of kernels over one row. */
export const ONE_ROW_FORMS = TABLE_FORMS.filter(({ tokens }) => tokens === 1);

/** Staged forms of every size, of 32, 64 and 128 outputs. */
export const STAGED_FORMS: readonly FormTuning[] = [
  { tokens: 16, split: 1, workgroup: 64, staged: 1, ownTokens: 4 },
  { tokens: 16, split: 1, workgroup: 128, staged: 1, ownTokens: 4 },
  { tokens: 32, split: 1, workgroup: 128, staged: 1, ownTokens: 4 },
  { tokens: 32, split: 1, workgroup: 256, staged: 1, ownTokens: 4 },
  { tokens: 64, split: 1, workgroup: 128, staged: 1, ownTokens: 4 },
  { tokens: 64, split: 1, workgroup: 256, staged: 1, ownTokens: 4 },
  { tokens: 16, split: 1, workgroup: 64, staged: 1, ownTokens: 2 },
  { tokens: 32, split: 1, workgroup: 256, staged: 1, ownTokens: 2 },
];

/** The one form that a check's tuning asks for. */
export function formsOf(tuning: Readonly<Record<string, number>>): RowForm[] {
  const { tokens = 4, split = 1, workgroup = 8, staged = 0, ownTokens = STAGED_TOKENS } = tuning;
  const own = staged === 1 && { staged: true, ownTokens };
  const { piecesAtOnce } = tuning;
  const pieces = piecesAtOnce !== undefined && { piecesAtOnce };
  return [{ tokens, split, workgroup, ...own, ...pieces, cost: 1 }];
}

/** These, and a staged form that would be through any rows sooner, were it taken. */
export function besideStaged(forms: readonly RowForm[]): RowForm[] {
  const [staged] = formsOf(STAGED_FORMS[0]!);
  return [...forms, { ...staged!, cost: 1e-3 }];
}
