/**
 * The options of a session, read and compared with what a model can do.
 *
 * @module
 */
import type { MonitorOptions, PromptEngine } from "./loading.ts";
import {
  hasImages,
  type LanguageModelMessage,
  notSupported,
  readPrompt,
  type WireMessage,
} from "./prompt_messages.ts";

export interface ExpectedContent {
  readonly type: "text" | "image" | "audio";
  /** Taken as they are: what a model speaks is not known. */
  readonly languages?: readonly string[];
}

export interface LanguageModelTool {
  readonly name: string;
  readonly description: string;
  /** A JSON schema of what it is called with. */
  readonly inputSchema: object;
  // biome-ignore lint/suspicious/noExplicitAny: as browsers declare it, so that their tools fit.
  readonly execute: (...args: any[]) => Promise<string>;
}

export type SamplingMode =
  | "most-predictable"
  | "predictable"
  | "balanced"
  | "creative"
  | "most-creative";

export interface CreateOptions extends MonitorOptions {
  readonly expectedInputs?: readonly ExpectedContent[];
  readonly expectedOutputs?: readonly ExpectedContent[];
  readonly tools?: readonly LanguageModelTool[];
  readonly initialPrompts?: readonly LanguageModelMessage[];
  /** Excludes `temperature` and `topK`. */
  readonly samplingMode?: SamplingMode;
  readonly temperature?: number;
  readonly topK?: number;
}

/** How a session samples, as fields of a chat. */
export interface Sampling {
  readonly temperature?: number;
  readonly top_k?: number;
}

/** What a session is. */
export interface SessionState {
  readonly engine: PromptEngine;
  readonly images: boolean;
  readonly sampling: Sampling;
  readonly tools: readonly LanguageModelTool[];
  /** They are never left out of the context. */
  readonly initial: readonly WireMessage[];
  /** Each a prompt with its answer, or what was appended. */
  readonly turns: readonly (readonly WireMessage[])[];
  /** Tokens of all that. */
  readonly usage: number;
}

export interface SessionOptions {
  /** Whether a model does what is asked; any may, as long as none is there. */
  suits(engine: PromptEngine | undefined): boolean;
  stateFor(engine: PromptEngine, signal: AbortSignal | undefined): Promise<SessionState>;
}

/** @throws {TypeError} for options that exclude each other. */
export async function sessionOptions(options: CreateOptions): Promise<SessionOptions> {
  const { expectedInputs = [], expectedOutputs = [], tools = [], initialPrompts = [] } = options;
  const sampling = samplingOf(options);
  const images = expectedInputs.some(({ type }) => type === "image");
  const audio = [...expectedInputs, ...expectedOutputs].some(({ type }) => type === "audio");
  const draws = expectedOutputs.some(({ type }) => type === "image");
  const { messages: initial } = await readPrompt(initialPrompts, { images, isInitial: true });
  const suits = (engine: PromptEngine | undefined) =>
    !audio && !draws && (!images || engine === undefined || engine.model.readsImages === true);
  return {
    suits,
    async stateFor(engine) {
      if (!suits(engine)) throw notSupported("what the session expects");
      const usage = await tokensOf(engine, initial);
      requireRoom(usage, engine.model.contextLength);
      return { engine, images, sampling, tools, initial, turns: [], usage };
    },
  };
}

/** Tokens of a conversation; pictures count for nothing until they have been computed. */
export async function tokensOf(
  engine: PromptEngine,
  messages: readonly WireMessage[],
): Promise<number> {
  if (messages.length === 0) return 0;
  const read = hasImages(messages) ? messages.map(withoutImages) : messages;
  const tokens = await engine.tokenize({
    messages: read as { readonly role: string; readonly content: string | null }[],
  });
  return tokens.length;
}

function withoutImages({ content, ...message }: WireMessage): WireMessage {
  if (content === null || typeof content === "string") return { ...message, content };
  const texts = content.map((part) => (part as { readonly text?: string }).text ?? "");
  return { ...message, content: texts.join("") };
}

/** @throws {DOMException} named QuotaExceededError, with `requested` and `quota`. */
export function requireRoom(requested: number, quota: number): void {
  if (requested < quota) return;
  const message = `Cannot prompt: ${requested} tokens do not fit into a context of ${quota}`;
  throw Object.assign(new DOMException(message, "QuotaExceededError"), { requested, quota });
}

/** Temperatures of the modes; "balanced" is the model's own. */
const TEMPERATURES: Readonly<Record<SamplingMode, number | undefined>> = {
  "most-predictable": 0,
  predictable: 0.4,
  balanced: undefined,
  creative: 1,
  "most-creative": 1.3,
};

function samplingOf({ samplingMode, temperature, topK }: CreateOptions): Sampling {
  if (samplingMode === undefined) {
    return {
      ...(temperature !== undefined && { temperature }),
      ...(topK !== undefined && { top_k: topK }),
    };
  }
  if (temperature !== undefined || topK !== undefined) {
    throw new TypeError("Cannot create a session: samplingMode excludes temperature and topK");
  }
  if (!Object.hasOwn(TEMPERATURES, samplingMode)) {
    throw new TypeError(`Cannot create a session: samplingMode "${samplingMode}" is not known`);
  }
  const chosen = TEMPERATURES[samplingMode];
  return chosen === undefined ? {} : { temperature: chosen };
}
