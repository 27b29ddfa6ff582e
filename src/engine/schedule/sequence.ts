/**
 * One growing list of tokens: the only mutable state of a request.
 *
 * | range of `tokens` | what it is |
 * |---|---|
 * | `[0, promptLength)` | the prompt |
 * | `[promptLength, length)` | completion tokens |
 * | `[0, computed)` | tokens whose keys and values are in the cache |
 * | `[0, sharedTokens)` | those of them in pages that the prefix cache owns |
 * | `[computed, length)` | tokens still to be computed; decoding leaves exactly one |
 *
 * Behind them stand `pending` tokens that steps in flight sample: known to the GPU alone so far. Of
 * a step that verifies drafts only the first one counts: how many more there will be is not known.
 *
 * @module
 */
import type { RadixNode } from "../../cache/radix_cache.ts";
import type { GrammarCompilation } from "../../constraint.ts";
import type { FinishReason, GenerationChunk } from "../../generation.ts";
import { acceptedPath } from "../../speculation/draft_nodes.ts";
import { acceptedOfChain } from "../../speculation/verify.ts";
import {
  type GrammarState,
  type SequenceGrammar,
  SPELLED_TOGETHER,
} from "../grammar/sequence_grammar.ts";
import type { PromptEmbeddings } from "../prompt_embeddings.ts";
import type { SampledRow, ScoredRow } from "../sample/sampled_row.ts";
import type { Sampling } from "../sample/sampling_params.ts";
import type { SequenceLogprobs } from "../sample/sequence_logprobs.ts";
import { SequenceRows } from "../sample/sequence_rows.ts";
import { StopStrings } from "../sample/stop.ts";
import type { SequenceOptions } from "../sequence_options.ts";
import type { SavedPages } from "./saved_pages.ts";
import {
  type DraftedRow,
  LEAST_LEFT,
  SequenceDrafts,
  type VerifiedDrafts,
} from "./sequence_drafts.ts";

const NO_DRAFTS: readonly number[] = [];

/** What is told when a request is accepted. */
interface Accepted {
  readonly compilation?: GrammarCompilation | undefined;
  readonly logprobBytes?: number | undefined;
}

export class Sequence {
  readonly requestId: string;
  readonly partition: string | undefined;
  readonly priority: number;
  readonly sampling: Sampling;
  readonly promptLength: number;
  readonly maxNewTokens: number;
  /** Tokens at its prompt's beginning that the request asks to store. */
  readonly storedLength: number;
  readonly tokens: number[];
  /** What its prompt's rows start from where they are no tokens. */
  readonly embeddings: PromptEmbeddings | undefined;
  /** Tokens whose keys and values are in the cache once the steps in flight have run. */
  computed = 0;
  /** Tokens that steps in flight sample: they exist on the GPU before the host knows them. */
  pending = 0;
  /** Tokens that were taken without being sampled. */
  forced = 0;
  /** The step that samples the newest of them, and which of its samples that is. */
  sampledIn = 0;
  sampledAt = 0;
  /** Pages that hold them, in order: a `PageTable` of its batches, so it only ever grows. */
  pageTable: number[] = [];
  /** The prefix that it shares through the cache, and how many of its tokens that covers. */
  prefix: RadixNode | undefined;
  sharedTokens = 0;
  /** Prompt tokens found in the cache when it was first admitted. */
  cachedTokens: number | undefined;
  /** How often it had to give its pages back. */
  retractions = 0;
  /** Its place in the order in which sequences came. */
  arrival = 0;
  /** Pages that wait in host memory, from its retraction until they are back. */
  saved: SavedPages | undefined;
  finish: FinishReason | null = null;
  readonly logprobs: SequenceLogprobs | undefined;
  readonly grammar: SequenceGrammar | undefined;
  readonly drafting: SequenceDrafts | undefined;
  readonly #rows: SequenceRows;
  readonly #options: SequenceOptions;
  readonly #stop: StopStrings;
  readonly #onRowError = (error: unknown) => this.fail(error);
  /** When it was accepted, in milliseconds, and from then to its first row, in seconds. */
  #acceptedAt = performance.now();
  #queueSeconds: number | undefined;
  #hasToldQueue = false;

  constructor(options: SequenceOptions) {
    this.requestId = options.requestId;
    this.partition = options.partition;
    this.priority = options.priority ?? 0;
    this.sampling = options.sampling;
    this.promptLength = options.prompt.length;
    this.maxNewTokens = options.maxNewTokens;
    this.storedLength = options.storedLength ?? 0;
    this.tokens = [...options.prompt];
    this.embeddings = options.embeddings;
    this.#options = options;
    this.logprobs = options.logprobs;
    this.grammar = options.grammar;
    this.drafting = options.drafts && new SequenceDrafts(options.drafts);
    this.#rows = new SequenceRows({
      sampling: options.sampling,
      eosTokenIds: options.eosTokenIds,
      processors: options.logitProcessors ?? [],
      onError: this.#onRowError,
    });
    this.#stop = new StopStrings(options.sampling.stop, options.sampling.noStopTrim);
  }

  get completionLength(): number {
    return this.tokens.length - this.promptLength;
  }

  /** Whether it gave its pages back, and nothing of it is computed again yet. */
  get isRetracted(): boolean {
    return this.retractions > 0 && this.computed === 0;
  }

  /** Tokens that it has at most in the end. */
  get mostTokens(): number {
    return this.promptLength + this.maxNewTokens;
  }

  /** Its tokens, those in flight included. */
  get length(): number {
    return this.tokens.length + this.pending;
  }

  /** Tokens that may follow the last one that is known, for the next step to verify. */
  get drafts(): readonly number[] {
    return this.drafting?.next ?? NO_DRAFTS;
  }

  /** Tokens that it may get behind those in flight. */
  get #tokensLeft(): number {
    return this.maxNewTokens - (this.length - this.promptLength);
  }

  /** Whether drafts of what follows its next tokens may be of use. */
  get wantsDrafts(): boolean {
    return this.drafting !== undefined && this.#tokensLeft >= LEAST_LEFT;
  }

  /** Whether the row after a token in flight can be prepared, and may be wanted. */
  get runsAhead(): boolean {
    if (this.#tokensLeft <= 0 || this.#rows.needTokens || this.grammar !== undefined) return false;
    if (!this.#isFarFromLimit) return false;
    if (this.drafting === undefined) return true;
    if (this.drafting.continues && this.#rows.needDrafts(this.length, this.promptLength))
      return false;
    return !this.drafting.isWaited && !this.drafting.isCountedDown(this.#tokensLeft);
  }

  /** Whether whatever the steps in flight and the next one give leaves its thought within its limit. */
  get #isFarFromLimit(): boolean {
    const { thinkingLimit } = this.#options;
    if (thinkingLimit === undefined) return true;
    const { slack = 0, most = 0 } = this.drafting ?? {};
    return thinkingLimit.left - this.pending - slack > most;
  }

  /** Whether a token may be sampled now, as far as the tokens before it are known. */
  get isPrepared(): boolean {
    return this.grammar === undefined || this.grammar.mask !== undefined;
  }

  /** Tokens that may be taken from a cache: the rows of the others are needed. */
  get cacheableTokens(): number {
    return Math.min(this.tokens.length - 1, this.logprobs?.firstRow ?? Number.POSITIVE_INFINITY);
  }

  /** The row that the newest token in flight is sampled from, or one behind drafts that follow it. */
  sampledRow({ node = 0, drafted = NO_DRAFTS, drawnBefore }: DraftedRow = {}): SampledRow {
    const position = this.length - 1 + drafted.length;
    const logprobs = this.logprobs?.sampledRow();
    const row = this.#rows.next(this, { position, drafted, drawnBefore, logprobs });
    const { thinkingLimit } = this.#options;
    if (this.grammar === undefined && thinkingLimit === undefined) return row;
    const mask = this.grammar?.maskBehind(node);
    // Near the limit no row is made before the tokens in front of it are known: this token is the only one.
    const forced = this.pending === 1 ? thinkingLimit?.mask : undefined;
    // A grammar that knows of no thought here has the last word.
    const isAllowed = forced !== undefined && (mask?.some((word, i) => word & forced[i]!) ?? true);
    return { ...row, mask: isAllowed ? forced : mask };
  }

  /** The prompt's row at `position`, to be scored. */
  scoredRow(position: number): ScoredRow {
    return { ...this.logprobs!.scoredRow(position), fail: this.#onRowError };
  }

  /** Says that the request is accepted, before its first token. */
  announce(): void {
    this.#acceptedAt = performance.now();
    this.#emit("", [], {
      compilation: this.grammar?.compilation,
      logprobBytes: this.logprobs?.byteLength,
    });
    this.#follow(this.#takeGiven());
  }

  /** Takes what its completion begins with, as far as that does not end it. */
  #takeGiven(): readonly number[] {
    for (const token of this.#options.given ?? []) if (this.finish === null) this.#take(token);
    return this.tokens.slice(this.promptLength);
  }

  /** Seconds since a step has first computed rows of it. */
  get secondsRunning(): number {
    return (performance.now() - this.#acceptedAt) / 1000 - (this.#queueSeconds ?? 0);
  }

  /** Forgets what steps in flight were to sample, as they never end: that is computed again. */
  restart(): void {
    this.pending = 0;
    this.drafting?.lose();
    this.retractions += 1;
    this.logprobs?.forgetPending();
  }

  /** Says that a step computes rows of it: the first time, its wait is over. */
  begin(): void {
    this.#queueSeconds ??= (performance.now() - this.#acceptedAt) / 1000;
  }

  /**
   * Takes what a step has drawn for it, and what follows from that without being drawn: the token
   * behind its last one, and those behind drafts, as far as these are what was drawn in their places.
   *
   * @returns How many tokens it got.
   */
  accept(
    all: ArrayLike<number>,
    { drafts = NO_DRAFTS, parents, proposed }: VerifiedDrafts = {},
  ): number {
    this.drafting?.end();
    const wasPrompt = this.tokens.length === this.promptLength;
    const path = parents && acceptedPath({ tokens: drafts, parents }, all);
    // Rows that are not on the path were of other texts.
    if (path !== undefined) this.logprobs?.keepRows(path, all.length);
    const drawn = path?.map((node) => all[node]!) ?? all;
    const accepted = path === undefined ? acceptedOfChain(drafts, drawn) : path.length - 1;
    if (!wasPrompt) this.drafting?.verified(drafts.length);
    const taken: number[] = [];
    while (taken.length <= accepted && this.finish === null) {
      // Told with the last chunk, which may be any of these tokens'.
      if (!wasPrompt && taken.length > 0) this.drafting?.accepted();
      const token = drawn[taken.length]!;
      taken.push(token);
      this.#take(token);
    }
    // The rows of accepted drafts have left their keys and values; the last token has none yet.
    this.computed += taken.length - 1;
    this.logprobs?.forgetPending(drawn.length - taken.length);
    this.#follow(taken, proposed);
    return taken.length;
  }

  #follow(tokens: readonly number[], proposed?: readonly number[]): void {
    if (this.finish !== null) return;
    const left = this.#options.thinkingLimit?.left ?? Number.POSITIVE_INFINITY;
    const room = Math.min(this.maxNewTokens - this.completionLength, left) - 1;
    this.drafting?.clear();
    const drafts =
      tokens.length > 0 ? this.drafting?.propose(this.tokens, { room, proposed }) : undefined;
    this.grammar?.advance(tokens, {
      drafts: drafts ?? NO_DRAFTS,
      parents: this.drafting?.parents,
      completion: this.tokens.slice(
        Math.max(this.promptLength, this.tokens.length - SPELLED_TOGETHER),
      ),
      take: (state) => this.#obey(state),
      fail: (error) => this.fail(error),
    });
  }

  #obey({ forced, mustEnd, endToken, drafts }: GrammarState): void {
    this.drafting?.keep(drafts);
    const { eosTokenIds, sampling } = this.#options;
    const before = this.tokens.length;
    for (const token of forced) {
      // One that would end it too early has its row, where a bias tells against it.
      const isEarly = this.completionLength < sampling.minNewTokens;
      if (this.finish !== null || (isEarly && sampling.stopTokenIds.has(token))) break;
      this.#force(token);
    }
    if (this.tokens.length > before) {
      this.#follow(this.tokens.slice(before));
      return;
    }
    const mayEnd = eosTokenIds.size > 0 && this.completionLength >= sampling.minNewTokens;
    if (!mustEnd || this.finish !== null) return;
    if (mayEnd) {
      if (endToken !== undefined && eosTokenIds.has(endToken)) this.#force(endToken);
      return;
    }
    // Complete, but no end token can be sampled to say so.
    this.finish = { type: "stop", matched: this.tokens.at(-1)! };
    this.#emit(this.#stop.flush(), []);
  }

  /** Takes a token that no step has drawn. */
  #force(token: number): void {
    this.forced += 1;
    this.#take(token);
  }

  /** Appends a token, decides whether the sequence ends, and passes on its text. */
  #take(token: number): void {
    const { detokenizer } = this.#options;
    this.tokens.push(token);
    this.#options.thinkingLimit?.push(token);
    this.finish = this.#finishAt(token);
    // A token that ends the sequence has no text of its own; one at the length limit does.
    const endsByToken = this.finish?.type === "stop" && !this.sampling.noStopTrim;
    let text = endsByToken ? "" : this.#stop.push(detokenizer.push([token]));
    if (this.finish !== null && this.#stop.matched === undefined) {
      text += this.#stop.push(detokenizer.flush());
    }
    const { matched } = this.#stop;
    if (matched !== undefined && this.finish === null) {
      this.finish = { type: "stop", matched };
    } else if (this.finish !== null) {
      text += this.#stop.flush();
    }
    this.#emit(text, [token]);
  }

  /** Ends the sequence early with the text so far, what was held back of it included. */
  abort(message: string): void {
    if (this.finish !== null) return;
    this.finish = { type: "abort", message };
    const text = this.#stop.push(this.#options.detokenizer.flush());
    this.#emit(this.#stop.matched === undefined ? text + this.#stop.flush() : text, []);
  }

  fail(error: unknown): void {
    this.finish = { type: "abort", message: "the engine failed" };
    this.#options.onError(error);
  }

  /** The limit comes first: a token that is both the last allowed and EOS reports `length`. */
  #finishAt(token: number): FinishReason | null {
    const { sampling, eosTokenIds } = this.#options;
    if (this.completionLength >= this.maxNewTokens) {
      return { type: "length", length: this.maxNewTokens };
    }
    if (sampling.ignoreEos) {
      // A grammar that has ended allows nothing more.
      const isEnd = this.grammar !== undefined && eosTokenIds.has(token);
      return isEnd ? { type: "stop", matched: token } : null;
    }
    if (eosTokenIds.has(token) || sampling.stopTokenIds.has(token)) {
      return { type: "stop", matched: token };
    }
    return null;
  }

  #emit(text: string, tokens: readonly number[], accepted: Accepted = {}): void {
    const { compilation, logprobBytes } = accepted;
    const logprobs = tokens.flatMap(() => this.logprobs?.takeToken() ?? []);
    const promptLogprobs = tokens.length > 0 ? this.logprobs?.takePrompt() : undefined;
    this.#options.onChunk({
      requestId: this.requestId,
      text,
      tokens,
      ...(logprobs.length > 0 && { logprobs }),
      ...(promptLogprobs !== undefined && { promptLogprobs }),
      promptTokens: this.promptLength,
      ...(this.embeddings?.imageTokens && { imageTokens: this.embeddings.imageTokens }),
      completionTokens: this.completionLength,
      cachedTokens: this.cachedTokens ?? 0,
      ...this.#takeQueueSeconds(),
      ...(compilation !== undefined && { compilation }),
      ...(logprobBytes !== undefined && { logprobBytes }),
      ...(this.finish !== null && this.grammar && { forcedTokens: this.forced }),
      ...(this.finish !== null && this.drafting && { speculation: this.drafting.figures }),
      finish: this.finish,
    });
  }

  /** Told once, as soon as it is known. */
  #takeQueueSeconds(): Pick<GenerationChunk, "queueSeconds"> {
    const queueSeconds = this.#queueSeconds;
    if (queueSeconds === undefined || this.#hasToldQueue) return {};
    this.#hasToldQueue = true;
    return { queueSeconds };
  }
}
