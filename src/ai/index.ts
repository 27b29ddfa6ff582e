/**
 * A provider for the `ai` SDK whose models are engines in the program or the page, without a server.
 *
 * @module
 */
import type { EmbeddingModelV3, ImageModelV3, LanguageModelV3, ProviderV3 } from "@ai-sdk/provider";
import { UnsupportedError } from "../errors.ts";
import { type ModelEngine, WispLanguageModel } from "./language_model.ts";

export type { ModelEngine };

/** The provider; as a function it gives its model. */
export interface WispProvider extends ProviderV3 {
  /** @param modelId What the SDK calls the model. Default: the engine's path. */
  (modelId?: string): LanguageModelV3;
}

/** `generateText({ model: createWisp(engine)(), prompt })` is answered by the engine. */
export function createWisp(engine: ModelEngine): WispProvider {
  const languageModel = (modelId = engine.model.path) => new WispLanguageModel(engine, modelId);
  const refuse = (kind: string) => (): never => {
    throw new UnsupportedError(kind, "an engine makes texts");
  };
  const embeddingModel: (id: string) => EmbeddingModelV3 = refuse("an embedding model");
  const imageModel: (id: string) => ImageModelV3 = refuse("an image model");
  const specificationVersion = "v3" as const;
  const others = { specificationVersion, languageModel, embeddingModel, imageModel };
  return Object.assign((modelId?: string) => languageModel(modelId), others);
}
