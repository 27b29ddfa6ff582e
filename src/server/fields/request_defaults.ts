/**
 * What requests that do not say are given by the server: sampling parameters, the length of chunks.
 *
 * @module
 */
import { InvalidRequestError } from "../../errors.ts";
import type { GenerationEngine, GenerationRequest } from "../../generation.ts";
import { Fields } from "../../http/fields.ts";
import { CONSTRAINTS, constraintsIn, type SamplingParams } from "../../sampling_params.ts";
import { layerOver } from "../engine_layer.ts";
import { readSamplingParams, type SampledPrompt, type VocabularySize } from "./sampling_fields.ts";

export interface RequestDefaults {
  /**
   * In the form of `sampling_params`. They come before the documented defaults and those of the
   * checkpoint, and give way to what a request says.
   */
  readonly samplingParams?: Readonly<Record<string, unknown>> | undefined;
  /** Tokens of one chunk of a stream. */
  readonly streamInterval?: number | undefined;
}

const PATH = "preferred_sampling_params";

/**
 * Finds out what can be told about sampling parameters before the model is known.
 *
 * @throws {EngineError} naming one that no request could have either.
 */
export function checkSamplingParams(params: unknown): void {
  readPreferred(params, { vocabularySize: Number.MAX_SAFE_INTEGER });
}

/** @throws {EngineError} naming a sampling parameter that no request could have either. */
export function withDefaults(
  engine: GenerationEngine,
  defaults: RequestDefaults,
): GenerationEngine {
  if (Object.values(defaults).every((value) => value === undefined)) return engine;
  const { sampling: preferred, streamInterval = defaults.streamInterval } = readPreferred(
    defaults.samplingParams ?? {},
    engine.model,
  );
  const { temperature, topP, topK, maxNewTokens } = preferred;
  const chat = { temperature, topP, topK, maxNewTokens };
  const given = Object.fromEntries(Object.entries(chat).filter(([, value]) => value !== undefined));
  return layerOver(engine, {
    // Chat requests start from these, so that what they say is all that is theirs.
    model: { ...engine.model, defaults: { ...engine.model.defaults, ...given } },
    generate: (request) =>
      engine.generate({
        ...(streamInterval !== undefined && { streamInterval }),
        ...request,
        sampling: merge(preferred, request.sampling),
      }),
  });
}

function readPreferred(params: unknown, model: VocabularySize): SampledPrompt {
  const read = readSamplingParams(new Fields(params, { path: PATH }), model);
  if (read.samples === 1) return read;
  const path = `${PATH}.n`;
  throw new InvalidRequestError(`Cannot use ${path}: only a request can ask for more than 1`, path);
}

function merge(
  preferred: SamplingParams,
  asked: GenerationRequest["sampling"] = {},
): SamplingParams {
  const merged = { ...preferred, ...asked };
  // A request may have one, so its own takes the place of all.
  if (constraintsIn(asked).length > 0) {
    for (const name of CONSTRAINTS) if (asked[name] === undefined) delete merged[name];
  }
  return merged;
}
