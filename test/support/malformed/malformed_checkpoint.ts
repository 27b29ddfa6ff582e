/**
 * A checkpoint with one to three things about its files changed, by a number.
 *
 * @module
 */
import type { Files } from "./base_checkpoints.ts";
import { toFields, writeJson } from "./json_text.ts";
import { mutateJson } from "./mutate_json.ts";
import { mutateSafetensors } from "./mutate_safetensors.ts";
import { mutateTemplate } from "./mutate_template.ts";
import { Random } from "./random.ts";

export interface MalformedCheckpoint {
  /** Names of the files that were changed. */
  readonly changed: readonly string[];
  readonly files: Files;
}

const TEMPLATES = "chat_template";
/** Without it the tables of an encoding of 200,000 tokens are read. */
const TOKENIZER = "tokenizer.json";

/** Case number `seed` of the checkpoints made of `bases`. */
export function malformedCheckpoint(bases: readonly Files[], seed: number): MalformedCheckpoint {
  const random = new Random(seed);
  const files: Record<string, Uint8Array> = { ...bases[seed % bases.length]! };
  const changed = new Set<string>();
  for (let left = random.pick([1, 1, 1, 2, 3]); left > 0; left--) {
    const name = chooseFile(Object.keys(files), random);
    changed.add(name);
    if (random.oneIn(40) && name !== TOKENIZER) delete files[name];
    else files[name] = mutateFile(name, files[name]!, random);
  }
  return { changed: [...changed], files };
}

/** What has most fields to get wrong, more often than the others. */
function chooseFile(names: readonly string[], random: Random): string {
  const often = names.filter((name) => name === "config.json" || name.startsWith("tokenizer"));
  return random.pick(random.oneIn(2) ? often : names);
}

function mutateFile(name: string, bytes: Uint8Array, random: Random): Uint8Array {
  if (random.oneIn(30)) return mutateBytes(bytes, random);
  try {
    if (name.endsWith(".safetensors")) return mutateSafetensors(bytes, random);
    const text = new TextDecoder("utf-8", { fatal: true }).decode(bytes);
    return new TextEncoder().encode(mutateText(name, text, random));
  } catch {
    // An earlier change left nothing to be read by its structure.
    return mutateBytes(bytes, random);
  }
}

function mutateText(name: string, text: string, random: Random): string {
  if (!name.endsWith(".json")) return mutateTemplate(text, random);
  const value = JSON.parse(text) as Record<string, unknown>;
  const template = value[TEMPLATES];
  if (typeof template === "string" && random.oneIn(2)) {
    return JSON.stringify({ ...value, [TEMPLATES]: mutateTemplate(template, random) });
  }
  return writeJson(mutateJson(toFields(value), random));
}

/** A few bytes other than they were, or the file cut. */
function mutateBytes(bytes: Uint8Array, random: Random): Uint8Array {
  const changed = bytes.slice(0, random.oneIn(2) ? bytes.length : random.below(bytes.length + 1));
  for (let i = 0; i < 4 && changed.length > 0; i++) {
    changed[random.below(Math.min(changed.length, 4096))] = random.below(256);
  }
  return changed;
}
