/**
 * Tunings that came from outside, checked.
 *
 * @module
 */
import { InvalidRequestError } from "../errors.ts";
import {
  type AttentionTuning,
  MOST_INVOCATIONS,
  type RowForm,
  stagedFits,
  TUNING_CHOICES,
  type Tuning,
} from "./tuning.ts";

/**
 * A tuning that came from outside: a file, or a caller's option.
 *
 * @throws {InvalidRequestError} naming what is unknown, missing or no allowed value.
 */
export function requireTuning(value: unknown): Tuning {
  const fields = requireFields(value, "tuning", [...FIELDS, ...FLAGS]);
  const lanes = requireChoice(fields.lanes, "lanes");
  const rowForms = requireForms(fields.rowForms, "rowForms", lanes);
  const attention = fields.attention === undefined ? {} : { attention: requireAttention(fields) };
  const order = requireOrder(fields);
  const common = { lanes, ...order, rowForms, ...requireFlags(fields), ...attention };
  if (fields.dtypeForms === undefined) return common;
  const given = requireFields(fields.dtypeForms, "dtypeForms", DTYPES);
  const dtypeForms = Object.fromEntries(
    Object.entries(given).map(([dtype, list]) => [
      dtype,
      requireForms(list, `dtypeForms.${dtype}`, lanes),
    ]),
  );
  return { ...common, dtypeForms };
}

const FIELDS = ["lanes", "rowsPerLane", "scaleOrder", "rowForms", "dtypeForms", "attention"];
/** What a tuning chooses a number for. */
type NumberChoice = Exclude<keyof typeof TUNING_CHOICES, "scaleOrder">;
const FLAGS = ["foldsNorms", "findsBest", "repacks"] as const satisfies readonly (keyof Tuning)[];
const DTYPES = ["f32", "f16", "bf16", "fp8", "int8", "int4", "mxfp4"];
function refuse(problem: string): never {
  throw new InvalidRequestError(`tuning: ${problem}`, "tuning");
}

function requireFields(
  value: unknown,
  name: string,
  known: readonly string[],
): Readonly<Record<string, unknown>> {
  if (typeof value !== "object" || value === null || Array.isArray(value)) {
    return refuse(`${name} must be an object`);
  }
  const stray = Object.keys(value).find((key) => !known.includes(key));
  if (stray !== undefined) refuse(`${name} has no field "${stray}"`);
  return value as Readonly<Record<string, unknown>>;
}

function requireOrder({
  rowsPerLane,
  scaleOrder,
}: Readonly<Record<string, unknown>>): Pick<Tuning, "rowsPerLane" | "scaleOrder"> {
  const known = TUNING_CHOICES.scaleOrder.find((order) => order === scaleOrder);
  if (scaleOrder !== undefined && known === undefined) {
    const given = JSON.stringify(scaleOrder);
    refuse(`scaleOrder must be one of ${TUNING_CHOICES.scaleOrder.join(", ")}, got ${given}`);
  }
  return {
    ...(rowsPerLane !== undefined && { rowsPerLane: requireChoice(rowsPerLane, "rowsPerLane") }),
    ...(known && { scaleOrder: known }),
  };
}

function requireFlags(
  fields: Readonly<Record<string, unknown>>,
): Pick<Tuning, (typeof FLAGS)[number]> {
  const given = FLAGS.filter((flag) => fields[flag] !== undefined);
  const wrong = given.find((flag) => typeof fields[flag] !== "boolean");
  if (wrong !== undefined) refuse(`${wrong} must be true or false`);
  return Object.fromEntries(given.map((flag) => [flag, fields[flag]]));
}

function requireAttention({ attention }: Readonly<Record<string, unknown>>): AttentionTuning {
  const numbers = ["rowHeads", "groupHeads", "promptHeads", "lanes"] as const;
  const given = requireFields(attention, "attention", [...numbers, "subgroups", "sharesReads"]);
  const [rowHeads, groupHeads, promptHeads, lanes] = numbers.map((name) =>
    requireChoice(given[name], name),
  ) as [number, number, number, number];
  const { subgroups, sharesReads = false } = given;
  if (typeof subgroups !== "boolean") return refuse("subgroups must be true or false");
  if (typeof sharesReads !== "boolean") return refuse("sharesReads must be true or false");
  const shared = { ...(sharesReads && { sharesReads }) };
  return { rowHeads, groupHeads, promptHeads, ...shared, lanes, subgroups };
}

function requireChoice(value: unknown, name: NumberChoice, words: string = name): number {
  const allowed: readonly number[] = TUNING_CHOICES[name];
  if (typeof value === "number" && allowed.includes(value)) return value;
  return refuse(`${words} must be one of ${allowed.join(", ")}, got ${JSON.stringify(value)}`);
}

function requireForms(value: unknown, name: string, lanes: number): RowForm[] {
  if (!Array.isArray(value) || value.length === 0) {
    return refuse(`${name} must be a list of forms`);
  }
  const list = value.map((entry) => requireForm(entry, name, lanes));
  const ascends = list.every(({ tokens }, i) => tokens > (list[i - 1]?.tokens ?? 0));
  if (list[0]!.tokens !== 1 || !ascends) {
    refuse(`${name} must start with 1 token and ascend in tokens`);
  }
  return list;
}

function requireForm(value: unknown, name: string, lanes: number): RowForm {
  const given = requireFields(value, name, ["tokens", "split", "workgroup", "staged", "cost"]);
  const { staged = false, cost } = given;
  if (typeof staged !== "boolean") return refuse(`${name}: staged must be true or false`);
  const tokens = staged
    ? requireChoice(given.tokens, "stagedTokens", "tokens of a staged form")
    : requireChoice(given.tokens, "tokens");
  const split = requireChoice(given.split, "split");
  const workgroup = requireChoice(given.workgroup, "workgroup");
  if (typeof cost !== "number" || !(cost > 0 && Number.isFinite(cost))) {
    return refuse(`${name}: cost must be a number above 0, got ${JSON.stringify(cost)}`);
  }
  if (lanes * split > MOST_INVOCATIONS) {
    return refuse(`${name}: split ${split} with ${lanes} lanes is over 256 invocations`);
  }
  if (!staged) return { tokens, split, workgroup, cost };
  if (split !== 1) return refuse(`${name}: split must be 1 in a staged form, got ${split}`);
  if (!stagedFits({ tokens, workgroup }, lanes)) {
    return refuse(
      `${name}: a workgroup of ${workgroup} cannot stage ${tokens} tokens with ${lanes} lanes`,
    );
  }
  return { tokens, split, workgroup, staged, cost };
}
