/**
 * `text`, `input_ids` and `input_embeds` -> the prompts of a request.
 *
 * @module
 */
import { InvalidRequestError } from "../../errors.ts";
import type { GenerationEngine, GenerationRequest } from "../../generation.ts";
import {
  type Fields,
  outOfRange,
  requireIds,
  requireList,
  requireString,
  wrongType,
} from "../../http/fields.ts";
import { turns } from "../../turns.ts";
import { requirePlaces } from "../queue_room.ts";

/** What is asked of an engine before its prompts are read. */
export type PromptTaker = Pick<GenerationEngine, "model" | "status">;

export type Prompt = Pick<GenerationRequest, "prompt" | "tokens" | "inputEmbeds">;

export interface Prompts {
  readonly prompts: readonly Prompt[];
  /** Whether they came as a list of prompts, be it of one. */
  readonly batch: boolean;
}

const FORMS = ["text", "input_ids", "input_embeds"] as const;

/**
 * Exactly one of the three fields, which holds one prompt or a list of them.
 *
 * @throws {CapacityError} when the engine has no room for so many.
 */
export async function readPrompts(fields: Fields, engine: PromptTaker): Promise<Prompts> {
  const [form, other] = FORMS.filter((name) => fields.value(name) !== undefined);
  if (form === undefined) {
    throw new InvalidRequestError(
      "Cannot generate: text, input_ids and input_embeds are all missing",
      "text",
    );
  }
  if (other !== undefined) {
    throw new InvalidRequestError(
      `Cannot use ${form} and ${other} together: a request has one of them`,
      other,
    );
  }
  const value = fields.value(form);
  switch (form) {
    case "text":
      return readTexts(value, form, engine);
    case "input_ids":
      return readIds(value, form, engine);
    case "input_embeds":
      return readEmbeddings(value, form, engine);
  }
}

/** In slices: a body holds millions of numbers. */
async function readEmbeddings(value: unknown, path: string, engine: PromptTaker): Promise<Prompts> {
  const read = async (given: unknown, at: string): Promise<Prompt> => {
    const inputEmbeds: Float32Array[] = [];
    for (const [i, row] of requireItems(given, at).entries()) {
      inputEmbeds.push(readRow(row, `${at}[${i}]`, engine.model.hiddenSize));
      if (turns.isDue) await turns.take();
    }
    return { inputEmbeds };
  };
  const items = requireItems(value, path);
  const [first] = items;
  const batch = Array.isArray(first) && Array.isArray(first[0]);
  if (!batch) return { prompts: [await read(items, path)], batch };
  requirePlaces(engine, items.length, path);
  const prompts: Prompt[] = [];
  for (const [i, item] of items.entries()) prompts.push(await read(item, `${path}[${i}]`));
  return { prompts, batch };
}

/**
 * The field `prompt` of completions: a text, token ids, or a list of either.
 *
 * @throws {CapacityError} when the engine has no room for so many.
 */
export function readPromptField(fields: Fields, engine: PromptTaker): Prompts {
  const path = "prompt";
  const value = fields.value(path);
  if (value === undefined)
    throw new InvalidRequestError("Cannot complete: prompt is missing", path);
  const isList = Array.isArray(value);
  if (value === "" || (isList && value.length === 0)) {
    throw new InvalidRequestError("Prompt cannot be empty", path);
  }
  const isText = typeof (isList ? value[0] : value) === "string";
  return isText ? readTexts(value, path, engine) : readIds(value, path, engine);
}

function readTexts(value: unknown, path: string, engine: PromptTaker): Prompts {
  return readEach(value, path, { engine, isBatch: Array.isArray, read: readText });
}

function readIds(value: unknown, path: string, engine: PromptTaker): Prompts {
  const { vocabularySize } = engine.model;
  return readEach(requireItems(value, path), path, {
    engine,
    isBatch: (ids) => Array.isArray(ids[0]),
    read: (ids, at) => ({ tokens: requireIds(requireItems(ids, at), at, vocabularySize) }),
  });
}

function readEach<T>(
  value: T,
  path: string,
  options: {
    readonly engine: PromptTaker;
    isBatch(value: T): boolean;
    read(value: unknown, path: string): Prompt;
  },
): Prompts {
  if (!options.isBatch(value)) return { prompts: [options.read(value, path)], batch: false };
  const items = requireItems(value, path);
  requirePlaces(options.engine, items.length, path);
  const prompts = items.map((item, i) => options.read(item, `${path}[${i}]`));
  return { prompts, batch: true };
}

function readText(value: unknown, path: string): Prompt {
  const prompt = requireString(value, path);
  if (prompt === "") throw new InvalidRequestError(`${path} cannot be empty`, path);
  return { prompt };
}

/** One embedding. Paths of its numbers are written only for errors. */
function readRow(value: unknown, path: string, hiddenSize: number): Float32Array {
  const list = requireList(value, path);
  if (list.length !== hiddenSize) {
    throw new InvalidRequestError(
      `${path} must have ${hiddenSize} numbers, the model's hidden size, got ${list.length}`,
      path,
    );
  }
  const row = new Float32Array(hiddenSize);
  for (let i = 0; i < hiddenSize; i++) {
    const number = list[i];
    if (typeof number !== "number") throw wrongType(`${path}[${i}]`, "a number", number);
    row[i] = number;
    if (!Number.isFinite(row[i]))
      throw outOfRange(`${path}[${i}]`, "a number that f32 holds", number);
  }
  return row;
}

function requireItems(value: unknown, path: string): readonly unknown[] {
  const list = requireList(value, path);
  if (list.length === 0) throw new InvalidRequestError(`${path} cannot be empty`, path);
  return list;
}
