/**
 * The rotary embedding that a config.json describes, checked field by field.
 *
 * Older files keep `rope_theta` outside and the rest in `rope_scaling`, newer ones everything in
 * `rope_parameters`; the kind is called "type" in the oldest and "rope_type" since.
 *
 * @module
 */

import type { ConfigReader, FieldOptions } from "../../checkpoint/config.ts";
import type { LongScaling, RopeScaling, YarnScaling } from "../../layers/attention/rope_scaling.ts";
import { checkPositions } from "./size_limits.ts";

export interface RopeConfig {
  readonly theta: number;
  /** Elements of a head that turn, its first ones. */
  readonly dim: number;
  readonly scaling: RopeScaling | undefined;
  /** Positions the embedding is meant for, the scaling included. */
  readonly contextLength: number;
  /** Pairs that each part of a position turns, one behind the other; absent where it has no parts. */
  readonly parts?: RopeParts;
}

/** Of a frame's number, a row's and a column's. */
export type RopeParts = readonly [number, number, number];

export interface ReadRopeOptions {
  readonly headDim: number;
  /** `max_position_embeddings` */
  readonly maxPosition: number;
  /** When the file has no rope_theta. Default 10000. */
  readonly defaultTheta?: number;
  /** Whether positions may have parts. Default false. */
  readonly takesParts?: boolean;
}

export interface RopeSection<T extends string> {
  readonly theta: number | undefined;
  /** Undefined without scaling and without `rope_parameters`. */
  readonly section: ConfigReader | undefined;
  readonly type: T | "default";
}

type Known = RopeScaling["type"] | "su";

/** "su" is what the first Phi-3 files call longrope. */
const TYPES: readonly ["default", ...Known[]] = [
  "default",
  "linear",
  "dynamic",
  "yarn",
  "llama3",
  "longrope",
  "su",
];

/**
 * @throws {CheckpointError | UnsupportedError} naming the field; fields of the section that its kind
 * does not have are left for the config's `finish` to refuse.
 */
export function readRope(config: ConfigReader, options: ReadRopeOptions): RopeConfig {
  const { headDim, maxPosition, defaultTheta = 10000, takesParts = false } = options;
  if (takesParts) return readPartedRope(config, options);
  const { theta = defaultTheta, section, type } = readRopeSection(config, TYPES);
  const dim = readDim(config, section, headDim);
  const common = { theta, dim, contextLength: maxPosition };
  if (section === undefined || type === "default") return { ...common, scaling: undefined };
  const factorOr = (fallback?: number) =>
    section.number("factor", { min: 1, ...(fallback !== undefined && { fallback }) });
  const place = section.has("original_max_position_embeddings") ? section : config;
  const originalOr = (fallback?: number) =>
    place.integer("original_max_position_embeddings", {
      min: 2,
      ...(fallback !== undefined && { fallback }),
    });
  switch (type) {
    case "linear":
    case "dynamic": {
      const factor = factorOr();
      const isStretched = place.has("original_max_position_embeddings");
      const originalMaxPosition = originalOr(maxPosition);
      // Without the length before the extension, max_position_embeddings is that length.
      const contextLength = isStretched ? maxPosition : Math.floor(maxPosition * factor);
      checkPositions(section, contextLength);
      if (type === "linear") return { ...common, contextLength, scaling: { type, factor } };
      if (dim < 4) throw config.error("head_dim", "a dynamic rope needs two pairs");
      return { ...common, contextLength, scaling: { type, factor, originalMaxPosition } };
    }
    case "yarn": {
      const originalMaxPosition = originalOr(maxPosition);
      const factor = factorOr(Math.max(maxPosition / originalMaxPosition, 1));
      const contextLength = Math.max(maxPosition, Math.floor(originalMaxPosition * factor));
      checkPositions(section, contextLength);
      const scaling = readYarn(section, { factor, originalMaxPosition });
      return { ...common, contextLength, scaling };
    }
    case "llama3": {
      const lowFrequencyFactor = positive(section, "low_freq_factor");
      const highFrequencyFactor = positive(section, "high_freq_factor");
      if (highFrequencyFactor <= lowFrequencyFactor) {
        throw section.error("high_freq_factor", "it must be above low_freq_factor");
      }
      const sizes = { factor: factorOr(), originalMaxPosition: originalOr() };
      const factors = { lowFrequencyFactor, highFrequencyFactor };
      return { ...common, scaling: { type, ...sizes, ...factors } };
    }
    case "longrope":
    case "su": {
      const originalMaxPosition = originalOr(maxPosition);
      const factor = factorOr(Math.max(maxPosition / originalMaxPosition, 1));
      const scaling = readLong(section, { dim, factor, originalMaxPosition });
      return { ...common, scaling };
    }
    default:
      return type satisfies never;
  }
}

/** Of positions with parts, which older files call a kind of its own. */
function readPartedRope(
  config: ConfigReader,
  { headDim, maxPosition, defaultTheta = 10000 }: ReadRopeOptions,
): RopeConfig {
  const { theta = defaultTheta, section } = readRopeSection(config, ["default", "mrope"]);
  const dim = readDim(config, section, headDim);
  const common = { theta, dim, contextLength: maxPosition, scaling: undefined };
  if (section === undefined) throw config.error("rope_scaling", "its mrope_section is missing");
  const [frame, row, column, ...more] = section.integers("mrope_section");
  const pairs = [frame, row, column].filter((part) => part !== undefined && part >= 0);
  const sum = pairs.reduce<number>((all, part) => all + part!, 0);
  if (pairs.length < 3 || more.length > 0 || sum !== dim / 2) {
    throw section.error("mrope_section", `it must be three numbers whose sum is ${dim / 2}`);
  }
  return { ...common, parts: [frame!, row!, column!] };
}

/**
 * Finds the section, its kind and theta.
 *
 * @param types Kinds that are understood.
 */
export function readRopeSection<T extends string>(
  config: ConfigReader,
  types: readonly ["default", ...T[]],
): RopeSection<T> {
  const parameters = config.section("rope_parameters", { fallback: undefined });
  const scaling = config.section("rope_scaling", { fallback: undefined });
  if (parameters !== undefined && scaling !== undefined) {
    throw config.error("rope_scaling", "rope_parameters is there too, one of them must go");
  }
  const section = parameters ?? scaling;
  const inside = section?.number("rope_theta", { min: 1, fallback: undefined });
  const outside = config.number("rope_theta", { min: 1, fallback: undefined });
  if (inside !== undefined && outside !== undefined && inside !== outside) {
    throw section!.error("rope_theta", `it is ${inside}, the field outside says ${outside}`);
  }
  const theta = inside ?? outside;
  if (section === undefined) return { theta, section, type: "default" };
  // Older files say "type", newer ones "rope_type", some both.
  const fields = ["rope_type", "type"].filter((field) => section.has(field));
  const named = fields.map((field) => section.only<T | "default">(field, types));
  const [type = section.only<T | "default">("rope_type", types, { required: true }), other] = named;
  const isSame = other === undefined || canonical(other) === canonical(type);
  if (!isSame) throw section.error("type", "rope_type says something else");
  return { theta, section, type };
}

function canonical(type: string): string {
  return type === "su" ? "longrope" : type;
}

function readDim(config: ConfigReader, section: ConfigReader | undefined, headDim: number): number {
  const place = section?.has("partial_rotary_factor") ? section : config;
  const share = place.number("partial_rotary_factor", { min: 0, max: 1, fallback: 1 });
  const dim = Math.floor(headDim * share);
  if (dim >= 2 && dim % 2 === 0) return dim;
  const field = share === 1 ? "head_dim" : "partial_rotary_factor";
  throw place.error(field, `${dim} of ${headDim} elements would turn, it must be an even number`);
}

function readYarn(
  section: ConfigReader,
  sizes: Pick<YarnScaling, "factor" | "originalMaxPosition">,
): YarnScaling {
  const mscale = section.number("mscale", { min: 0, fallback: 0 });
  const mscaleAllDim = section.number("mscale_all_dim", { min: 0, fallback: 0 });
  const attentionFactor = positive(section, "attention_factor", { fallback: undefined });
  // Public code disagrees on what one of them means without the other, but for this one case.
  if (attentionFactor === undefined && mscale !== 1 && (mscale === 0) !== (mscaleAllDim === 0)) {
    throw section.error("mscale", "mscale and mscale_all_dim must both be there, or neither");
  }
  return {
    type: "yarn",
    ...sizes,
    betaFast: positive(section, "beta_fast", { fallback: 32 }),
    betaSlow: positive(section, "beta_slow", { fallback: 1 }),
    truncate: section.boolean("truncate", { fallback: true }),
    ...(attentionFactor !== undefined && { attentionFactor }),
    mscale: mscale === 0 ? 1 : mscale,
    mscaleAllDim,
  };
}

function readLong(
  section: ConfigReader,
  sizes: { readonly dim: number; readonly factor: number; readonly originalMaxPosition: number },
): LongScaling {
  const { dim, factor, originalMaxPosition } = sizes;
  const factors = (field: string) => {
    const read = section.numbers(field);
    if (read.length === dim / 2 && read.every((one) => one > 0)) return read;
    throw section.error(field, `it must be ${dim / 2} positive numbers, one for each pair`);
  };
  const fallback =
    factor === 1 ? 1 : Math.sqrt(1 + Math.log(factor) / Math.log(originalMaxPosition));
  return {
    type: "longrope",
    shortFactors: factors("short_factor"),
    longFactors: factors("long_factor"),
    originalMaxPosition,
    attentionFactor: positive(section, "attention_factor", { fallback }),
  };
}

/** A number above 0. */
export function positive<F = never>(
  section: ConfigReader,
  field: string,
  options: FieldOptions<F> = {},
): number | F {
  const value = section.number(field, { ...options, min: 0 });
  if (value === 0) throw section.error(field, "it must be above 0");
  return value;
}
