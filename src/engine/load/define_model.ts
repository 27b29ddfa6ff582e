/**
 * What a checkpoint's files say about its model, before anything is allocated or loaded.
 *
 * @module
 */
import type { Checkpoint } from "../../checkpoint/checkpoint.ts";
import { readConfig } from "../../checkpoint/config.ts";
import type { Quantization } from "../../checkpoint/quantization.ts";
import { detectQuantization } from "../../checkpoint/quantization_config/detect_quantization.ts";
import {
  checkQuantizationOption,
  matrixDtype,
  type UploadTarget,
} from "../../checkpoint/quantization_option.ts";
import { MatrixFormats } from "../../layers/weights/matrix_format.ts";
import { architectureOf } from "../../models/architectures.ts";
import type { ModelDefinition } from "../../models/model.ts";
import { type Communicator, ONE_RANK } from "../../parallel/communicator.ts";

export interface DefinedModel {
  readonly definition: ModelDefinition;
  readonly quantization: Quantization;
  /** What plain weights are quantized to on their way to the GPU. */
  readonly uploadTo: UploadTarget | undefined;
  /** The formats of the checkpoint's matrices. */
  formats(): MatrixFormats;
}

/**
 * @param quantize The option `quantization`.
 * @throws {CheckpointError | UnsupportedError} naming what is wrong with config.json, or not
 * supported in it.
 * @throws {InvalidRequestError} when the option contradicts the checkpoint.
 * @param communicator Which of how many ranks the model is for. Default: one rank.
 */
export async function defineModel(
  checkpoint: Checkpoint,
  quantize: string | undefined,
  communicator: Communicator = ONE_RANK,
): Promise<DefinedModel> {
  const { source, tensors } = checkpoint;
  const config = await readConfig(source);
  const quantization = await detectQuantization(source, config);
  const architecture = architectureOf(config);
  const stored = matrixDtype(checkpoint);
  const { uploadTo } = checkQuantizationOption(quantize, quantization, stored);
  const formats = () =>
    new MatrixFormats({ tensor: (name) => tensors.get(name), quantization, uploadTo });
  const ranks = { communicator, formats: formats() };
  const definition = architecture.define(config, quantization, ranks);
  return { definition, quantization, uploadTo, formats };
}
