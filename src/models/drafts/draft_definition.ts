/**
 * What a checkpoint is to the model that it drafts for: a head that is trained for it, or a model.
 *
 * @module
 */
import type { ConfigReader } from "../../checkpoint/config.ts";
import type { Quantization } from "../../checkpoint/quantization.ts";
import { InvalidRequestError } from "../../errors.ts";
import { ONE_RANK } from "../../parallel/communicator.ts";
import { architectureOf } from "../architectures.ts";
import { latentShape } from "../deepseek.ts";
import { gqaModelShape } from "../gqa_decoder.ts";
import type { ModelShape } from "../model.ts";
import type { CreateOptions } from "../model_options.ts";
import type { DraftNetwork } from "./draft_network.ts";
import {
  AUXILIARY_STATES,
  type EagleConfig,
  eagleHeadOf,
  readEagleConfig,
} from "./eagle_config.ts";
import { EagleHead } from "./eagle_head.ts";

export interface DraftDefinition {
  readonly architecture: string;
  readonly shape: ModelShape;
  /** @throws {InvalidRequestError} when it is not for a target of that shape. */
  create(options: CreateOptions, target: ModelShape): DraftNetwork;
}

/**
 * @param files `has`: whether the checkpoint has a tensor.
 * @throws {CheckpointError | UnsupportedError} naming the field of config.json.
 */
export function defineDraft(
  config: ConfigReader,
  quantization: Quantization,
  has: (name: string) => boolean,
): DraftDefinition {
  const named = eagleHeadOf(config.strings("architectures"));
  if (named === undefined) {
    const { architecture, shape, create } = architectureOf(config).define(config, quantization);
    // Rows of images are the target's, and empty in a draft.
    const createDraft = (given: CreateOptions) => create({ ...given, sees: false }).asDraft();
    return { architecture, shape, create: createDraft };
  }
  const head = readEagleConfig(config, named);
  config.finish({ ignored: ["quantization_config", "compression_config"] });
  const { architecture, generation } = head;
  const shape = shapeOf(head);
  return {
    architecture,
    shape,
    create: (given, target) => {
      requireWidth(head, target);
      // Inputs stay as they are: a head is small, and changes no answer.
      const options = { ...given, communicator: ONE_RANK, quantizeActivations: false };
      const captures = generation === "EAGLE3" ? capturesOf(head, target) : undefined;
      return new EagleHead(head, options, { has, captures, splitLength: shape.splitLength });
    },
  };
}

function shapeOf({ layer }: EagleConfig): ModelShape {
  const widest = AUXILIARY_STATES * layer.config.hiddenSize;
  if (layer.kind === "gqa") return gqaModelShape(layer.config, widest);
  const { config } = layer;
  const shape = latentShape(config, { size: 1, allHeads: config.heads, rounds: false });
  const row = Math.max(shape.maxRowBytes.row, widest * FLOAT_BYTES);
  return { ...shape, maxRowBytes: { ...shape.maxRowBytes, row } };
}

const FLOAT_BYTES = 4;
const FIELD = "speculation.draftModelPath";

function requireWidth({ layer }: EagleConfig, target: ModelShape): void {
  const { hiddenSize } = layer.config;
  if (hiddenSize === target.hiddenSize) return;
  throw new InvalidRequestError(
    `Cannot use ${FIELD}: the head's rows have ${hiddenSize} elements, the model's ${target.hiddenSize}`,
    FIELD,
  );
}

/** The layers in front of which rows are taken: the config has those that leave them. */
function capturesOf({ auxiliaryLayers }: EagleConfig, { layers }: ModelShape): readonly number[] {
  const taken = auxiliaryLayers?.map((layer) => layer + 1) ?? [
    2,
    Math.floor(layers / 2),
    layers - 3,
  ];
  const wrong = taken.find((layer) => layer < 0 || layer >= layers);
  if (wrong === undefined) return taken;
  throw new InvalidRequestError(
    `Cannot use ${FIELD}: the head reads what layer ${wrong - 1} leaves, and the model's ${layers} layers leave rows to the next one from 0 to ${layers - 2}`,
    FIELD,
  );
}
