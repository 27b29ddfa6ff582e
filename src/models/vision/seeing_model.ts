/**
 * A text model and the vision tower that makes rows for it, out of one checkpoint.
 *
 * @module
 */
import type { ConfigReader } from "../../checkpoint/config.ts";
import type { WeightSpec } from "../../checkpoint/weight_spec.ts";
import { DeviceMemory } from "../../gpu/memory.ts";
import type { LayerContext } from "../../layers/layer_context.ts";
import type { DefinedRanks } from "../../layers/ranks/ranked_model.ts";
import type { MatrixFormats } from "../../layers/weights/matrix_format.ts";
import { attentionRanks, ONE_RANK } from "../../parallel/communicator.ts";
import type { Model, ModelDefinition } from "../model.ts";
import type { CreateOptions } from "../model_options.ts";
import type { VisionTower } from "./vision_tower.ts";

/** How the decoder's names are spelled in a checkpoint: what they begin with, and what that stands for. */
export type Spellings = readonly (readonly [stored: string, decoder: string])[];

export interface SeeingParts {
  readonly definition: ModelDefinition;
  readonly spellings: Spellings;
  /** Those that share the text model; absent where one has it. */
  readonly ranks: DefinedRanks | undefined;
  /** Tensors beside the decoder's that are known and not wanted. Default none. */
  ignores?(name: string): boolean;
  createTower(context: LayerContext): VisionTower;
}

/** The first of several ways of spelling whose token table the checkpoint has. */
export function spellingOf<T extends { readonly text: Spellings }>(
  formats: MatrixFormats,
  ways: readonly [T, ...T[]],
): T {
  const table = "model.embed_tokens";
  return ways.find(({ text }) => formats.has(`${respelled(table, text)}.weight`)) ?? ways[0];
}

/**
 * The first of several ranks has the tower: it reads images, and the others are sent their rows. All
 * count it, as they must keep as many tokens.
 */
export function createSeeing(
  { definition, spellings, ranks, ignores, createTower }: SeeingParts,
  options: CreateOptions,
): Model {
  const { formats, memory, sees = true } = options;
  const storedName = (name: string) => respelled(name, spellings);
  const stored = (specs: readonly WeightSpec[]) =>
    specs.map((spec) => ({ ...spec, name: storedName(spec.name) }));
  const text = definition.create({ ...options, formats: formats.renamed(storedName) });
  const textBytes = memory.bytes("weights");
  const isFirst = attentionRanks(ranks?.communicator ?? ONE_RANK).rank === 0;
  // Of a tower that nothing is read with the names alone are wanted.
  const towerMemory = sees ? memory : new DeviceMemory(memory.limits);
  const context = { ...options, memory: towerMemory, communicator: ONE_RANK };
  const made = isFirst || towerMemory.onlyCounts ? createTower(context) : undefined;
  const tower = sees ? made : undefined;
  const unread = new Set(sees ? [] : made!.specs.map(({ name }) => name));
  const visionWeightBytes = memory.bytes("weights") - textBytes;
  const isIgnored = (name: string) =>
    unread.has(name) ||
    (ignores?.(name) ?? false) ||
    spellings.some(
      ([begin, own]) => name.startsWith(begin) && text.ignores(own + name.slice(begin.length)),
    );
  return {
    specs: [...stored(text.specs), ...(tower?.specs ?? [])],
    weightFormats: formats.used,
    numericClasses: text.numericClasses,
    findsBest: text.findsBest,
    unshared: text.unshared,
    ignores: isIgnored,
    compile: (plan, tensors) => text.compile(plan, tensors),
    asDraft() {
      const draft = text.asDraft();
      return {
        specs: stored(draft.specs),
        enters: draft.enters,
        hiddenSize: draft.hiddenSize,
        captures: draft.captures,
        ignores: isIgnored,
        bind: (plan, target, tensors) => draft.bind(plan, target, tensors),
      };
    },
    ...(tower && { vision: tower }),
    visionWeightBytes,
  };
}

/** The same ranks for a decoder, which has names of its own for what the checkpoint has. */
export function ranksOfText(
  ranks: DefinedRanks | undefined,
  spellings: (formats: MatrixFormats) => Spellings,
): DefinedRanks | undefined {
  if (ranks === undefined) return undefined;
  const { communicator, formats } = ranks;
  const stored = spellings(formats);
  return { communicator, formats: formats.renamed((name) => respelled(name, stored)) };
}

/** Of a tensor, or a module, of the decoder. */
function respelled(name: string, spellings: Spellings): string {
  const [stored, own] = spellings.find(([, begin]) => name.startsWith(begin)) ?? ["", ""];
  return stored + name.slice(own.length);
}

/** A whole number that the files repeat, which must be what follows from the others. */
export function requireRepeated(
  config: ConfigReader,
  field: string,
  { value, what }: { readonly value: number; readonly what: string },
): void {
  const given = config.integer(field, { fallback: value });
  if (given !== value) throw config.error(field, `${what} is ${value} rows, not ${given}`);
}
