/**
 * The browsers' Prompt API (`LanguageModel.create`) over an engine, where a browser has none of its own
 * or a page wants its own model.
 *
 * @module
 */
import { PromptLanguageModel } from "./language_model.ts";
import { EngineLoading, type PromptEngineSource } from "./loading.ts";
import { type CreateOptions, sessionOptions } from "./session_options.ts";

export type { PromptOptions } from "./language_model.ts";
export type { PromptEngine, PromptEngineSource } from "./loading.ts";
export type { LanguageModelMessage, LanguageModelPrompt } from "./prompt_messages.ts";
export type { CreateOptions, LanguageModelTool, SamplingMode } from "./session_options.ts";
export { PromptLanguageModel };

export type Availability = "unavailable" | "downloadable" | "downloading" | "available";

/** What `globalThis.LanguageModel` is in browsers that have it. */
export interface LanguageModelStatic {
  new (): PromptLanguageModel;
  /** @throws {DOMException} named NotSupportedError for what the model does not read or write. */
  create(options?: CreateOptions): Promise<PromptLanguageModel>;
  availability(options?: CreateOptions): Promise<Availability>;
  params(): Promise<{
    readonly defaultTopK: number;
    readonly maxTopK: number;
    readonly defaultTemperature: number;
    readonly maxTemperature: number;
  }>;
}

/**
 * The class `LanguageModel` over an engine, or over one that is loaded with the first session:
 * `globalThis.LanguageModel = languageModelOf(engine)`.
 */
export function languageModelOf(source: PromptEngineSource): LanguageModelStatic {
  const loading = new EngineLoading(source);
  return class LanguageModel extends PromptLanguageModel {
    static async create(options: CreateOptions = {}): Promise<PromptLanguageModel> {
      const { signal } = options;
      signal?.throwIfAborted();
      const read = await sessionOptions(options);
      const engine = await loading.engine(options);
      const { usage, ...state } = await read.stateFor(engine, signal);
      signal?.throwIfAborted();
      const session = new LanguageModel({ ...state, usage });
      signal?.addEventListener("abort", () => session.destroy(), { once: true });
      return session;
    }

    static async availability(options: CreateOptions = {}): Promise<Availability> {
      const read = await sessionOptions({ ...options, initialPrompts: [] }).catch(() => undefined);
      return read?.suits(loading.loaded) === true ? loading.state : "unavailable";
    }

    static async params() {
      const { temperature = 1, topK = 64 } = (await loading.engine({})).model.defaults;
      const defaultTopK = Math.max(topK, 1);
      return { defaultTopK, maxTopK: 1024, defaultTemperature: temperature, maxTemperature: 2 };
    }
  };
}
