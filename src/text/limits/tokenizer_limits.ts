/**
 * What a tokenizer.json may ask of the code that runs it.
 *
 * The file is a small program: steps that rewrite a text, cut it and put tokens around it, one after
 * another. Written to do harm, a page of it doubles a text at every step or never comes to an end, so
 * each step is looked at before the library makes anything of it.
 *
 * @module
 */

import { CheckpointError } from "../../errors.ts";
import { type AddedToken, isRecord } from "../tokenizer_config.ts";

const FILE = "tokenizer.json";

/** Steps of one part, those inside of sequences too; published tokenizers have under ten. */
export const MAX_STEPS = 64;
/** How many times as long all steps together may make a text. */
export const MAX_GROWTH = 256;
/** UTF-16 units of a pattern; the longest published ones have under a thousand. */
export const MAX_PATTERN = 16_384;
/** UTF-16 units of what is put in front of a text, or at the ends of pieces. */
export const MAX_AFFIX = 256;
/** Tokens that a template puts around a text. */
export const MAX_TEMPLATE = 64;
/** UTF-16 units of all added tokens, and of all pieces that are looked for one character at a time. */
export const MAX_ADDED = 2 ** 20;
export const MAX_UNIGRAM = 2 ** 23;

/** Where sequences of each part have their steps. */
const LISTS = ["normalizers", "pretokenizers", "processors", "decoders"];
const AFFIXES = ["end_of_word_suffix", "continuing_subword_prefix", "continuing_subword_suffix"];

type Step = Readonly<Record<string, unknown>>;

/** @throws {CheckpointError} naming the part of a parsed tokenizer.json that asks for too much. */
export function checkTokenizerLimits(tokenizerJson: Step): void {
  let growth = 1;
  for (const part of ["normalizer", "pre_tokenizer"] as const) {
    for (const step of stepsOf(part, tokenizerJson[part])) {
      checkRewriting(part, step);
      growth *= growthOf(part, step);
    }
    if (growth > MAX_GROWTH) {
      const problem = `its steps make a text more than ${MAX_GROWTH} times as long`;
      throw new CheckpointError(FILE, problem, part);
    }
  }
  for (const step of stepsOf("post_processor", tokenizerJson.post_processor)) checkTemplate(step);
  stepsOf("decoder", tokenizerJson.decoder);
  checkModel(tokenizerJson.model);
}

/** @throws {CheckpointError} when they take too much memory to be looked for. */
export function checkAddedLimits(added: readonly AddedToken[]): void {
  const units = added.reduce((sum, { content }) => sum + content.length, 0);
  if (units <= MAX_ADDED) return;
  const problem = `they have ${units} UTF-16 units, over the limit of ${MAX_ADDED}`;
  throw new CheckpointError(FILE, problem, "added tokens");
}

/** The steps of a part without the sequences around them. */
function stepsOf(part: string, whole: unknown): Step[] {
  const steps: Step[] = [];
  const all = [whole];
  for (const step of all) {
    if (!isRecord(step)) continue;
    if (step.type !== "Sequence") steps.push(step);
    for (const list of LISTS) {
      for (const inside of Array.isArray(step[list]) ? (step[list] as readonly unknown[]) : []) {
        if (all.push(inside) > MAX_STEPS) {
          throw new CheckpointError(FILE, `it has more than ${MAX_STEPS} steps`, part);
        }
      }
    }
  }
  return steps;
}

function checkRewriting(part: string, step: Step): void {
  const { type, length, prepend } = step;
  const pattern = patternOf(step);
  if ((type === "Replace" || type === "Split") && pattern === undefined) {
    const problem = `the pattern of its ${type} is neither a "Regex" nor a "String"`;
    throw new CheckpointError(FILE, problem, part);
  }
  if (pattern !== undefined && pattern.length > MAX_PATTERN) {
    const problem = `a pattern has ${pattern.length} UTF-16 units, over the limit of ${MAX_PATTERN}`;
    throw new CheckpointError(FILE, problem, part);
  }
  if (type === "FixedLength" && !(Number.isSafeInteger(length) && (length as number) > 0)) {
    const problem = `the length of pieces is ${JSON.stringify(length) ?? "missing"}`;
    throw new CheckpointError(FILE, `${problem}, it must be a whole number of at least 1`, part);
  }
  if (type === "Prepend") checkAffix(part, prepend);
}

/** How many times as long a step makes a text that it finds its pattern all over. */
function growthOf(part: string, step: Step): number {
  const { type, content, replacement, str_rep: spelled } = step;
  switch (type) {
    case "Replace": {
      const units = textLength(content);
      // What matches nothing as well stands between any two characters.
      const isFound = isRecord(step.pattern) && textLength(step.pattern.String) > 0;
      return Math.max(1, isFound ? units : units + 1);
    }
    case "Metaspace":
      return Math.max(1, textLength(spelled), textLength(replacement));
    case "ByteLevel":
      // Two characters for each one that is not printable.
      return part === "pre_tokenizer" ? 2 : 1;
    default:
      return 1;
  }
}

function textLength(value: unknown): number {
  return typeof value === "string" ? value.length : 0;
}

function patternOf({ pattern }: Step): string | undefined {
  if (!isRecord(pattern)) return undefined;
  const { Regex: regex, String: text } = pattern;
  return [regex, text].find((one) => typeof one === "string");
}

function checkTemplate({ type, single }: Step): void {
  if (type !== "TemplateProcessing" || !Array.isArray(single)) return;
  const texts = single.filter((item) => isRecord(item) && item.Sequence !== undefined).length;
  if (single.length <= MAX_TEMPLATE && texts <= 1) return;
  const problem = `its template of ${single.length} parts has the text ${texts} times`;
  const rule = `it must have it once, in at most ${MAX_TEMPLATE} parts`;
  throw new CheckpointError(FILE, `${problem}, ${rule}`, "post_processor");
}

function checkModel(model: unknown): void {
  if (!isRecord(model)) return;
  for (const field of AFFIXES) {
    if (model[field] !== undefined && model[field] !== null) {
      checkAffix(`model.${field}`, model[field]);
    }
  }
  const { type, vocab } = model;
  if (type === "BPE" || !Array.isArray(vocab)) return;
  const pieces = vocab as readonly unknown[];
  const units = pieces.reduce<number>(
    (sum, entry) => sum + textLength(Array.isArray(entry) ? entry[0] : entry),
    0,
  );
  if (units <= MAX_UNIGRAM) return;
  const problem = `its pieces have ${units} UTF-16 units, over the limit of ${MAX_UNIGRAM}`;
  throw new CheckpointError(FILE, problem, "model.vocab");
}

function checkAffix(part: string, value: unknown): void {
  if (typeof value === "string" && value.length <= MAX_AFFIX) return;
  const problem = `what is put before or behind pieces must be text of up to ${MAX_AFFIX} UTF-16 units`;
  throw new CheckpointError(FILE, problem, part);
}
