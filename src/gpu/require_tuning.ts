/**
 * Tunings that came from outside, checked.
 *
 * @module
 */
import { InvalidRequestError } from "../errors.ts";
import { MOST_INVOCATIONS, stagedFits } from "./staged_room.ts";
import {
  type AttentionTuning,
  type RowForm,
  type ScaleOrder,
  TUNING_CHOICES,
  type Tuning,
} from "./tuning.ts";

/**
 * A tuning that came from outside: a file, or a caller's option.
 *
 * @throws {InvalidRequestError} naming what is unknown, missing or no allowed value.
 */
export function requireTuning(value: unknown): Tuning {
  const tuning = requireFields(value, "tuning", TUNING);
  for (const form of tuning.rowForms) requireRoom(form, "rowForms", tuning.lanes);
  for (const [dtype, forms] of Object.entries(tuning.dtypeForms ?? {})) {
    for (const form of forms) requireRoom(form, `dtypeForms: ${dtype}`, tuning.lanes);
  }
  return tuning;
}

/** Returns a value as it should be, or refuses it. */
type Check<T> = (value: unknown, name: string) => T;
/** Of the fields of `T`; those that may be left out have an `optional` one. */
type Checks<T> = { readonly [K in keyof T]-?: Check<T[K] | undefined> };

function refuse(problem: string): never {
  throw new InvalidRequestError(`Cannot use the tuning: ${problem}`, "tuning");
}

/** An object's fields, each as its check returns it. */
function requireFields<T>(value: unknown, name: string, checks: Checks<T>): T {
  if (typeof value !== "object" || value === null || Array.isArray(value)) {
    return refuse(`${name} must be an object`);
  }
  const stray = Object.keys(value).find((key) => !Object.hasOwn(checks, key));
  if (stray !== undefined) refuse(`${name} has no field "${stray}"`);
  const given = value as Readonly<Record<string, unknown>>;
  const checked = Object.entries<Check<unknown>>(checks).map(([key, check]) => {
    return [key, check(given[key], name === "tuning" ? key : `${name}: ${key}`)] as const;
  });
  return Object.fromEntries(checked.filter(([, field]) => field !== undefined)) as T;
}

const optional =
  <T>(check: Check<T>): Check<T | undefined> =>
  (value, name) =>
    value === undefined ? undefined : check(value, name);

const choice =
  <T>(allowed: readonly T[], where = ""): Check<T> =>
  (value, name) => {
    if (allowed.includes(value as T)) return value as T;
    const given = JSON.stringify(value);
    return refuse(`${name}${where} must be one of ${allowed.join(", ")}, got ${given}`);
  };

const flag: Check<boolean> = (value, name) =>
  typeof value === "boolean" ? value : refuse(`${name} must be true or false`);

const cost: Check<number> = (value, name) =>
  typeof value === "number" && value > 0 && Number.isFinite(value)
    ? value
    : refuse(`${name} must be a number above 0, got ${JSON.stringify(value)}`);

const FORM: Checks<RowForm> = {
  // An absent one is as good as false.
  staged: (value, name) => optional(flag)(value, name) || undefined,
  tokens: choice<number>(TUNING_CHOICES.tokens),
  ownTokens: (value, name) =>
    value === undefined ? undefined : refuse(`${name} is of staged forms alone`),
  split: choice<number>(TUNING_CHOICES.split),
  workgroup: choice<number>(TUNING_CHOICES.workgroup),
  piecesAtOnce: optional(choice<number>(TUNING_CHOICES.piecesAtOnce)),
  cost,
};

const STAGED_FORM: Checks<RowForm> = {
  ...FORM,
  tokens: choice<number>(TUNING_CHOICES.stagedTokens, " of a staged form"),
  ownTokens: optional(choice<number>(TUNING_CHOICES.ownTokens)),
};

/** Forms of one dtype, but for what depends on the lanes. */
const forms: Check<readonly RowForm[]> = (value, name) => {
  if (!Array.isArray(value) || value.length === 0) {
    return refuse(`${name} must be a list of forms`);
  }
  const list = value.map((form) =>
    requireFields(form, name, form?.staged === true ? STAGED_FORM : FORM),
  );
  const ascends = list.every((form, i) => form.tokens > (list[i - 1]?.tokens ?? 0));
  if (list[0]!.tokens !== 1 || !ascends) {
    refuse(`${name} must start with 1 token and ascend in tokens`);
  }
  return list;
};

const DTYPES = ["f32", "f16", "bf16", "fp8", "int8", "int4", "mxfp4"];
const DTYPE_FORMS = Object.fromEntries(DTYPES.map((dtype) => [dtype, optional(forms)]));

const ATTENTION: Checks<AttentionTuning> = {
  rowHeads: choice<number>(TUNING_CHOICES.rowHeads),
  groupHeads: choice<number>(TUNING_CHOICES.groupHeads),
  promptHeads: choice<number>(TUNING_CHOICES.promptHeads),
  lanes: choice<number>(TUNING_CHOICES.lanes),
  subgroups: flag,
  sharesReads: optional(flag),
  fill: optional(cost),
  unrolls: optional(flag),
};

const TUNING: Checks<Tuning> = {
  lanes: choice<number>(TUNING_CHOICES.lanes),
  rowsPerLane: optional(choice<number>(TUNING_CHOICES.rowsPerLane)),
  scaleOrder: optional(choice<ScaleOrder>(TUNING_CHOICES.scaleOrder)),
  rowForms: forms,
  fill: optional(cost),
  readsAlone: optional(flag),
  dtypeForms: optional((value, name) =>
    requireFields<NonNullable<Tuning["dtypeForms"]>>(value, name, DTYPE_FORMS),
  ),
  foldsNorms: optional(flag),
  findsBest: optional(flag),
  repacks: optional(flag),
  sequential: optional(flag),
  pairTile: optional(choice<number>(TUNING_CHOICES.pairTile)),
  attention: optional((value, name) => requireFields(value, name, ATTENTION)),
};

/** Whether so many lanes can run a form. */
function requireRoom(form: RowForm, name: string, lanes: number): void {
  const { split, workgroup, staged } = form;
  if (lanes * split > MOST_INVOCATIONS) {
    refuse(`${name}: split ${split} with ${lanes} lanes is over 256 invocations`);
  }
  if (!staged) return;
  if (split !== 1) refuse(`${name}: split must be 1 in a staged form, got ${split}`);
  if (stagedFits(form, lanes)) return;
  refuse(
    `${name}: a workgroup of ${workgroup} cannot stage ${form.tokens} tokens with ${lanes} lanes`,
  );
}
