/**
 * config.json of heads that are trained to draft for a model, checked field by field.
 *
 * @module
 */
import type { ConfigReader } from "../../checkpoint/config.ts";
import { UnsupportedError } from "../../errors.ts";
import { type DeepseekConfig, readDeepseekConfig } from "../config/deepseek_config.ts";
import { type GqaConfig, type GqaFamily, readGqaConfig } from "../config/gqa_config.ts";
import { qwenSlides } from "../config/qwen_window.ts";

export type EagleGeneration = "EAGLE" | "EAGLE3";

/** The layer of a head: that of a family, whose attention it has; its MLP is dense. */
type EagleLayer =
  | { readonly kind: "gqa"; readonly config: GqaConfig }
  | { readonly kind: "mla"; readonly config: DeepseekConfig };

export interface EagleConfig {
  readonly architecture: string;
  readonly generation: EagleGeneration;
  readonly layer: EagleLayer;
  readonly mlp: { readonly intermediate: number; readonly bias: boolean };
  /** Tokens that its own output head knows; undefined where it uses the target's. */
  readonly draftVocabularySize: number | undefined;
  /** Layers of the target, by their output, that it reads; undefined for the usual three. */
  readonly auxiliaryLayers: readonly number[] | undefined;
  /** Of EAGLE-3: whether what attention adds to has the norm that attention's input has. */
  readonly addsToNormed: boolean;
}

type Family =
  | { readonly kind: "gqa"; readonly family: GqaFamily }
  | { readonly kind: "mla"; readonly generation: "v2" | "v3" };

/** Whose layer heads have, by what is left of their names without the head. */
const FAMILIES: Readonly<Record<string, Family>> = {
  LlamaForCausalLM: { kind: "gqa", family: { architecture: "LlamaForCausalLM" } },
  Qwen2ForCausalLM: {
    kind: "gqa",
    family: {
      architecture: "Qwen2ForCausalLM",
      projectionBias: true,
      defaults: { slidingWindow: 4096 },
      slides: qwenSlides,
    },
  },
  DeepseekV2ForCausalLM: { kind: "mla", generation: "v2" },
  DeepseekV3ForCausalLM: { kind: "mla", generation: "v3" },
};

/** Hidden states of the target that EAGLE-3 takes. */
export const AUXILIARY_STATES = 3;

/** One server has the head's kind in front of the family's name, another behind it. */
const IN_FRONT = /^Eagle(3?)(.+ForCausalLM)$/;
const BEHIND = /^(.+ForCausalLM)Eagle(3?)$/;

interface HeadName {
  readonly name: string;
  readonly family: string;
  readonly generation: EagleGeneration;
  readonly isBehind: boolean;
}

function headName(name: string): HeadName | undefined {
  const behind = BEHIND.exec(name);
  const [family, third] = behind?.slice(1) ?? IN_FRONT.exec(name)?.slice(1).reverse() ?? [];
  if (family === undefined) return undefined;
  return {
    name,
    family,
    generation: third === "3" ? "EAGLE3" : "EAGLE",
    isBehind: behind !== null,
  };
}

/** The head that a config's `architectures` names; undefined where that is no head. */
export function eagleHeadOf(names: readonly string[]): HeadName | undefined {
  return names.map(headName).find((one) => one !== undefined);
}

/** @throws {CheckpointError | UnsupportedError} naming the field. */
export function readEagleConfig(config: ConfigReader, head: HeadName): EagleConfig {
  const { name, generation } = head;
  const family = FAMILIES[head.family];
  if (family === undefined || (family.kind === "mla" && generation === "EAGLE")) {
    const known = Object.entries(FAMILIES).map(([one, { kind }]) => {
      return kind === "mla" ? `${one}Eagle3` : `${one}Eagle, ${one}Eagle3`;
    });
    throw new UnsupportedError(`architecture ${name}`, `known heads are ${known.join(", ")}`);
  }
  const own = readEagle3(config, { ...head, isLatent: family.kind === "mla" });
  const layer = readLayer(config, family);
  const { layers } = layer.config;
  if (layers !== 1) {
    throw new UnsupportedError(
      `num_hidden_layers ${layers} of ${config.file}`,
      `a draft head has 1 layer`,
    );
  }
  const { hiddenSize } = layer.config;
  if (own.addsToNormed && hiddenSize % 2 === 1) {
    const feature = `hidden_size ${hiddenSize} of ${config.file}`;
    throw new UnsupportedError(feature, "with norm_before_residual it must be even");
  }
  const mlp =
    layer.kind === "gqa"
      ? { intermediate: layer.config.intermediate, bias: layer.config.bias.mlp }
      : { intermediate: layer.config.denseIntermediate, bias: false };
  return { architecture: name, generation, layer, mlp, ...own };
}

function readLayer(config: ConfigReader, family: Family): EagleLayer {
  if (family.kind === "gqa") return { kind: "gqa", config: readGqaConfig(config, family.family) };
  const read = readDeepseekConfig(config, family.generation);
  // Such files are made from the target's, whose experts and modules a head has not.
  return { kind: "mla", config: { ...read, draftLayers: 0, experts: undefined } };
}

function readEagle3(
  config: ConfigReader,
  { generation, isBehind, isLatent }: HeadName & { readonly isLatent: boolean },
) {
  if (generation === "EAGLE") {
    return { draftVocabularySize: undefined, auxiliaryLayers: undefined, addsToNormed: false };
  }
  const vocabularySize = config.integer("vocab_size", { min: 1 });
  const draftVocabularySize = config.integer("draft_vocab_size", {
    min: 1,
    max: vocabularySize,
    fallback: undefined,
  });
  config.integer("target_hidden_size", { min: 1, fallback: undefined });
  config.only("num_aux_hidden_states", [AUXILIARY_STATES]);
  config.only("fc_norm", [false]);
  config.only("norm_output", [false]);
  config.only("logit_scale", [1]);
  // The server that names heads of latent attention so adds to normed rows, whatever the file says.
  const addsToNormed = config.boolean("norm_before_residual", { fallback: isBehind && isLatent });
  const section = config.section("eagle_config", { fallback: undefined });
  const auxiliaryLayers = section?.integers("eagle_aux_hidden_state_layer_ids", {
    fallback: undefined,
  });
  section?.only("use_aux_hidden_state", [true]);
  if (auxiliaryLayers !== undefined && auxiliaryLayers.length !== AUXILIARY_STATES) {
    const problem = `it names ${auxiliaryLayers.length} layers instead of ${AUXILIARY_STATES}`;
    throw section!.error("eagle_aux_hidden_state_layer_ids", problem);
  }
  return { draftVocabularySize, auxiliaryLayers, addsToNormed };
}
