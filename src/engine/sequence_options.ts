/**
 * What a sequence is made from.
 *
 * @module
 */
import type { GenerationChunk } from "../generation.ts";
import type { Detokenizer } from "../text/detokenizer.ts";
import type { SequenceGrammar } from "./grammar/sequence_grammar.ts";
import type { PromptEmbeddings } from "./prompt_embeddings.ts";
import type { LogitProcessor } from "./sample/logit_processor.ts";
import type { Sampling } from "./sample/sampling_params.ts";
import type { SequenceLogprobs } from "./sample/sequence_logprobs.ts";
import type { ThinkingLimit } from "./sample/thinking_limit.ts";
import type { DraftOptions } from "./schedule/sequence_drafts.ts";

export interface SequenceOptions {
  readonly requestId: string;
  /** Prefixes are shared with sequences of the same partition only. */
  readonly partition?: string | undefined;
  /** Those with a higher one start first. Default 0. */
  readonly priority?: number | undefined;
  readonly prompt: readonly number[];
  /** What the prompt's rows start from when its ids are no tokens. */
  readonly embeddings?: PromptEmbeddings | undefined;
  readonly sampling: Sampling;
  /** Completion tokens at most, context and cache considered. */
  readonly maxNewTokens: number;
  /** Ids that end the sequence unless `ignoreEos`. */
  readonly eosTokenIds: ReadonlySet<number>;
  readonly detokenizer: Detokenizer;
  /** Absent when the request asks for no log-probabilities. */
  readonly logprobs?: SequenceLogprobs | undefined;
  /** What its text must match. Default: anything. */
  readonly grammar?: SequenceGrammar | undefined;
  /** Ends its thought. Absent where none has to end. */
  readonly thinkingLimit?: ThinkingLimit | undefined;
  /** Change the logits before each draw. Default none. */
  readonly logitProcessors?: readonly LogitProcessor[] | undefined;
  /** Drafts its tokens. Default: a step gives it one token. */
  readonly drafts?: DraftOptions | undefined;
  /** Tokens at its prompt's beginning that are to be stored. Default 0. */
  readonly storedLength?: number | undefined;
  /** Tokens that its completion begins with; they are not drawn. Default none. */
  readonly given?: readonly number[] | undefined;
  /** Takes each chunk as it comes. */
  readonly onChunk: (chunk: GenerationChunk) => void;
  /** Takes the error that ended the sequence instead of a last chunk. */
  readonly onError: (error: unknown) => void;
}
