/**
 * config.json of heads that are trained to draft for a model, checked field by field.
 *
 * @module
 */
import type { ConfigReader } from "../../checkpoint/config.ts";
import { UnsupportedError } from "../../errors.ts";
import { type GqaConfig, type GqaFamily, readGqaConfig } from "../config/gqa_config.ts";
import { qwenSlides } from "../config/qwen_window.ts";

export type EagleGeneration = "EAGLE" | "EAGLE3";

export interface EagleConfig extends GqaConfig {
  readonly generation: EagleGeneration;
  /** Tokens that its own output head knows; undefined where it uses the target's. */
  readonly draftVocabularySize: number | undefined;
  /** Layers of the target, by their output, that it reads; undefined for the usual three. */
  readonly auxiliaryLayers: readonly number[] | undefined;
}

/** What the names of heads begin with: the family whose layer they have. */
const FAMILIES: Readonly<Record<string, GqaFamily>> = {
  LlamaForCausalLM: { architecture: "LlamaForCausalLM" },
  Qwen2ForCausalLM: {
    architecture: "Qwen2ForCausalLM",
    projectionBias: true,
    defaults: { slidingWindow: 4096 },
    slides: qwenSlides,
  },
};

/** Hidden states of the target that EAGLE-3 takes. */
export const AUXILIARY_STATES = 3;

/** The head that a config's `architectures` names; undefined where that is no head. */
export function eagleGeneration(names: readonly string[]): EagleGeneration | undefined {
  if (names.some((name) => name.endsWith("Eagle3"))) return "EAGLE3";
  return names.some((name) => name.endsWith("Eagle")) ? "EAGLE" : undefined;
}

/** @throws {CheckpointError | UnsupportedError} naming the field. */
export function readEagleConfig(config: ConfigReader, generation: EagleGeneration): EagleConfig {
  const [name] = config.strings("architectures").filter((one) => /Eagle3?$/.test(one));
  const family = FAMILIES[name!.replace(/Eagle3?$/, "")];
  if (family === undefined) {
    const known = Object.keys(FAMILIES).map((one) => `${one}Eagle, ${one}Eagle3`);
    throw new UnsupportedError(`architecture ${name}`, `known heads are ${known.join(", ")}`);
  }
  const read = readGqaConfig(config, family);
  if (read.layers !== 1) {
    throw new UnsupportedError(
      `num_hidden_layers ${read.layers} of ${config.file}`,
      `a draft head has 1 layer`,
    );
  }
  return { ...read, architecture: name!, generation, ...readEagle3(config, generation) };
}

function readEagle3(config: ConfigReader, generation: EagleGeneration) {
  if (generation === "EAGLE") return { draftVocabularySize: undefined, auxiliaryLayers: undefined };
  const vocabularySize = config.integer("vocab_size", { min: 1 });
  const draftVocabularySize = config.integer("draft_vocab_size", {
    min: 1,
    max: vocabularySize,
    fallback: undefined,
  });
  config.integer("target_hidden_size", { min: 1, fallback: undefined });
  const section = config.section("eagle_config", { fallback: undefined });
  const auxiliaryLayers = section?.integers("eagle_aux_hidden_state_layer_ids", {
    fallback: undefined,
  });
  section?.only("use_aux_hidden_state", [true]);
  if (auxiliaryLayers !== undefined && auxiliaryLayers.length !== AUXILIARY_STATES) {
    const problem = `it names ${auxiliaryLayers.length} layers instead of ${AUXILIARY_STATES}`;
    throw section!.error("eagle_aux_hidden_state_layer_ids", problem);
  }
  return { draftVocabularySize, auxiliaryLayers };
}
