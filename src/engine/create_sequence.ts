/**
 * From a request to a sequence: everything that can be wrong with a request is found here.
 *
 * @module
 */
import type { JsonJump } from "../constraint.ts";
import { InvalidRequestError, UnsupportedError } from "../errors.ts";
import type { GenerationRequest, ModelDescription } from "../generation.ts";
import { newRequestId } from "../generation.ts";
import type { Constraint } from "../grammar/grammar.ts";
import { SequenceGrammar, type Spelling } from "./grammar/sequence_grammar.ts";
import type { TextModel } from "./load/text_model.ts";
import { requireStorable } from "./prefix/prefix_options.ts";
import { completionLimit, type Prompt, type PromptOptions } from "./prompt.ts";
import type { LogitProcessor } from "./sample/logit_processor.ts";
import {
  DEFAULT_MAX_NEW_TOKENS,
  requireFewerAtLeast,
  resolveSampling,
  type Sampling,
} from "./sample/sampling_params.ts";
import { SequenceLogprobs } from "./sample/sequence_logprobs.ts";
import { thinkingLimitOf } from "./sample/thinking_limit.ts";
import { type ChunkStream, requireInterval } from "./schedule/chunk_stream.ts";
import { requirePriority } from "./schedule/schedule_policy.ts";
import { Sequence } from "./schedule/sequence.ts";
import type { Drafter, ToldTokens } from "./schedule/sequence_drafts.ts";
import { ProfiledDetokenizer } from "./step/profiled_detokenizer.ts";
import type { Profiler } from "./step/profiler.ts";
import type { PageRoutes } from "./transfer/page_routes.ts";

/** What only the engine itself takes, as it cannot cross a worker or a socket. */
export interface LocalRequest extends GenerationRequest, PageRoutes {
  readonly signal?: AbortSignal;
  /** Change the request's logits before each draw, in this order. */
  readonly logitProcessors?: readonly LogitProcessor[];
  /**
   * Tokens of an answer that was begun elsewhere: it begins with them, as if they had been drawn here.
   * Not with log-probabilities or processors, of which each needs the step that draws a token.
   */
  readonly given?: readonly number[] | undefined;
}

/** What all sequences of an engine are made with. */
export interface SequenceSetting {
  readonly text: TextModel;
  /** What sequences take without a step where a grammar leaves no choice. */
  readonly jsonJump: JsonJump;
  /** Spells text that a grammar forces as the tokenizer would. */
  readonly spelling: Spelling;
  readonly model: ModelDescription;
  readonly allowAutoTruncate: PromptOptions["allowAutoTruncate"];
  readonly profiler: Profiler;
  /** Seeds of requests that name none. */
  readonly nextSeed: () => number;
  /** Called when the mask of a sequence that waits for one is there. */
  readonly onMaskKnown: () => void;
  /** What drafts the tokens of a sequence. Absent: no drafts. */
  readonly drafting?: Drafting | undefined;
}

/** How sequences come by drafts. */
export interface Drafting {
  /** Absent ones leave it to the steps to make drafts. */
  readonly createDrafter: () => Drafter | undefined;
  /** Drafts of a sequence that one step verifies at most. */
  readonly most: number;
  /** Whether coins accept drafts, so that answers depend on how many there are. */
  readonly decide: boolean;
  /** Shared by the drafters of all sequences. */
  readonly told: ToldTokens;
  /** How deep trees are, where steps make such. */
  readonly treeDepth: number | undefined;
}

export interface SequenceContext extends SequenceSetting {
  /** Takes the chunks. */
  readonly stream: ChunkStream;
  readonly constraint: Constraint | undefined;
}

/**
 * Checks everything about a request that does not depend on its prompt.
 *
 * @returns Makes its sequence, once the prompt is there.
 * @throws {InvalidRequestError} naming what is wrong with the request; so does what it returns.
 */
export function prepareSequence(
  request: LocalRequest,
  context: SequenceContext,
): (prompt: Prompt) => Sequence {
  const { vocabularySize } = context.model;
  const seed = context.nextSeed();
  requireInterval(request.streamInterval);
  requireOneReplica(request);
  const sampling = resolveSampling(request.sampling ?? {}, { vocabularySize, seed });
  const priority = requirePriority(request.priority);
  return (prompt) => createSequence(request, { ...context, sampling, priority, prompt });
}

/** @throws {InvalidRequestError} when the request is for another one of several. */
function requireOneReplica({ dataParallelRank = 0 }: LocalRequest): void {
  if (dataParallelRank === 0) return;
  throw new InvalidRequestError(
    `dataParallelRank must be 0, as there is one replica, got ${dataParallelRank}`,
    "dataParallelRank",
  );
}

/** @throws {InvalidRequestError | UnsupportedError} for tokens that no completion begins with. */
function givenOf(
  { given = [], logprobs, logitProcessors = [] }: LocalRequest,
  { vocabularySize, most }: { readonly vocabularySize: number; readonly most: number },
): readonly number[] {
  if (given.length === 0) return given;
  if (logprobs !== undefined || logitProcessors.length > 0) {
    throw new UnsupportedError("given", "each token has to be drawn by a step");
  }
  if (given.length > most) {
    const state = `they are ${given.length}, and the completion has ${most} at most`;
    throw new InvalidRequestError(`Cannot begin with given tokens: ${state}`, "given");
  }
  const wrong = given.find(
    (token) => !(Number.isInteger(token) && token >= 0 && token < vocabularySize),
  );
  if (wrong === undefined) return given;
  throw new InvalidRequestError(`Cannot begin with given tokens: ${wrong} is no token`, "given");
}

interface SequenceParts extends SequenceContext {
  readonly sampling: Sampling;
  readonly priority: number;
  readonly prompt: Prompt;
}

function createSequence(
  request: LocalRequest,
  { text, model, stream, constraint, sampling, priority, drafting, ...context }: SequenceParts,
): Sequence {
  const { vocabularySize, contextLength } = model;
  const { tokens: prompt, embeddings } = context.prompt;
  const { vocabulary } = text.tokenizer;
  const asked = completionLimit(prompt.length, sampling.maxNewTokens, {
    contextLength,
    fallback: DEFAULT_MAX_NEW_TOKENS,
    allowAutoTruncate: context.allowAutoTruncate,
  });
  requireFewerAtLeast(sampling, asked);
  // The answer is drawn where its pages go: one token here tells that the prompt is computed, so none
  // may be taken without a step.
  const isAnswered = request.pageTaker === undefined;
  const maxNewTokens = isAnswered ? asked : Math.min(asked, 1);
  return new Sequence({
    requestId: request.requestId ?? newRequestId(),
    partition: request.cacheSalt,
    priority,
    prompt,
    embeddings,
    sampling,
    maxNewTokens,
    given: givenOf(request, { vocabularySize, most: asked }),
    storedLength: requireStorable(request, {
      promptLength: prompt.length,
      isLasting: embeddings === undefined || embeddings.lasting !== undefined,
      storesPrefixes: model.storesPrefixes,
    }),
    logprobs:
      request.logprobs &&
      new SequenceLogprobs(request.logprobs, {
        prompt,
        isEmbedded: (position) => embeddings?.row(position) !== undefined,
        temperature: sampling.logprobTemperature,
        vocabularySize,
        maxNewTokens,
        text: (token) => vocabulary.text(token),
      }),
    grammar:
      constraint && isAnswered
        ? new SequenceGrammar({
            vocabularySize,
            // Every log-probability comes from a step, and processors see the logits of every one.
            jump: request.logprobs || request.logitProcessors?.length ? "off" : context.jsonJump,
            spelling: context.spelling,
            onKnown: context.onMaskKnown,
          })
        : undefined,
    thinkingLimit: thinkingLimitOf(request, { ...text, vocabularySize }),
    logitProcessors: request.logitProcessors,
    drafts: drafting && {
      ...drafting,
      drafter: drafting.createDrafter(),
      vocabularySize,
      endTokens: sampling.ignoreEos ? new Set() : text.eosTokenIds,
    },
    eosTokenIds: text.eosTokenIds,
    detokenizer: new ProfiledDetokenizer(vocabulary, sampling, context.profiler),
    onChunk: (chunk) => stream.push(chunk),
    onError: (error) => stream.fail(error),
  });
}
