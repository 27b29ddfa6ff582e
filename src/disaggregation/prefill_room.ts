/**
 * One request on a prefill server: what its engine computes goes to the decode server that has opened
 * the room too.
 *
 * @module
 */
import type { PageRun, PageTaker, TravellingPrompt } from "../engine/transfer/page_routes.ts";
import { type DisaggregatedSide, DisaggregationError } from "../errors.ts";
import type { PromptLogprobs } from "../logprobs.ts";
import type { Channel } from "./channel.ts";
import type { FrameGate } from "./frame_gate.ts";
import { promptDigest } from "./handshake.ts";
import { MAX_FRAMES_AHEAD } from "./limits.ts";
import { type PrefillMessage, shortened } from "./messages.ts";
import { encodeFrame } from "./page_frame.ts";
import {
  type FailureReason,
  type RoomFailure,
  type RoomFigures,
  RoomTransfer,
} from "./room_figures.ts";
import { RoomState } from "./room_state.ts";

/** Characters of log-probabilities in one message, unless a position has more. */
const LOGPROB_CHARACTERS = 2 ** 18;

/** The decode server's side of a room. */
export interface DecodePeer {
  readonly channel: Pick<Channel, "send">;
  readonly lease: number;
  readonly digest: string;
  /** Makes of pages what the decode server takes. */
  readonly formed: (bytes: Uint8Array<ArrayBuffer>) => Uint8Array<ArrayBuffer>;
}

export interface PrefillRoomOptions {
  readonly room: string;
  /** Of the request, where it has one. */
  readonly requestId: string | undefined;
  /** Whose tickets open it. Default: those who know the key do. */
  readonly owner?: string | undefined;
  /** Milliseconds until a decode server has opened it; then, of a page of a browser, until it wants pages. */
  readonly openTimeout: number;
  /** Milliseconds until pages that were sent are in place. */
  readonly takeTimeout: number;
  /** Of all rooms. */
  readonly gate: FrameGate;
  readonly figures: RoomFigures;
  /** Called once, when it is over. */
  readonly onOver: (failure: RoomFailure | undefined) => void;
}

export class PrefillRoom implements PageTaker {
  readonly #options: PrefillRoomOptions;
  readonly #state = new RoomState();
  readonly #transfer: RoomTransfer;
  readonly #over = new AbortController();
  /** Resolves when it is over; `skipped` where nothing of the prompt is wanted. Rejects when it failed. */
  readonly over: Promise<"sent" | "skipped">;
  #settle!: { resolve(how: "sent" | "skipped"): void; reject(error: unknown): void };
  #peer: DecodePeer | undefined;
  /** Whether a decode server has opened it, though it may have left. */
  #isPaired = false;
  #digest: string | undefined;
  #promptTokens = 0;
  /** The first page that is wanted. */
  #first: number | undefined;
  /** Messages with pages that are not in place yet. */
  #ahead = 0;
  /** Called when one of the above has changed. */
  #news: (() => void)[] = [];
  #timer: ReturnType<typeof setTimeout> | undefined;
  #cachedTokens: number | undefined;
  #logprobs: readonly PromptLogprobs[] | undefined;
  #isComputed = false;
  #isAborted = false;

  constructor(options: PrefillRoomOptions) {
    this.#options = options;
    this.#transfer = new RoomTransfer(options.figures);
    this.over = new Promise((resolve, reject) => {
      this.#settle = { resolve, reject };
    });
    // Who waits for it is told; it is no fault where none does.
    this.over.catch(() => {});
    this.#limit(options.openTimeout, "decode", "no decode server has opened it");
  }

  get name(): string {
    return this.#options.room;
  }

  get requestId(): string | undefined {
    return this.#options.requestId;
  }

  get owner(): string | undefined {
    return this.#options.owner;
  }

  /** Whether its request was aborted while its pages were leaving. */
  get isAborted(): boolean {
    return this.#isAborted;
  }

  get state(): RoomState["name"] {
    return this.#state.name;
  }

  /** Once it has been read. */
  get promptTokens(): number {
    return this.#promptTokens;
  }

  get hasPeer(): boolean {
    return this.#isPaired;
  }

  get signal(): AbortSignal {
    return this.#over.signal;
  }

  /** The decode server has read the prompt, and waits for a place or has one. */
  pair(peer: DecodePeer): void {
    clearTimeout(this.#timer);
    this.#peer = peer;
    this.#isPaired = true;
    this.#state.advance("waiting for input");
    // Decode servers ask in a time of their own, by which they count as lost; pages may ask never.
    const { owner, openTimeout } = this.#options;
    if (owner !== undefined) this.#limit(openTimeout, "decode", "no pages were asked for");
    this.#compare();
  }

  async begin(prompt: TravellingPrompt): Promise<number> {
    this.#promptTokens = prompt.tokens.length;
    this.#digest = promptDigest(prompt);
    this.#compare();
    await this.#until(() => this.#first !== undefined);
    const first = Math.min(this.#first!, prompt.pageCount);
    this.#state.advance("transferring");
    this.#transfer.begin();
    return first;
  }

  async take({ first, count, bytes }: PageRun): Promise<void> {
    const { gate } = this.#options;
    await this.#until(() => this.#ahead < MAX_FRAMES_AHEAD);
    await gate.enter();
    if (this.#state.isOver) {
      gate.leave();
      throw this.#over.signal.reason;
    }
    const { channel, lease, formed } = this.#peer!;
    const sent = formed(bytes);
    channel.send(encodeFrame({ lease, first, count, bytes: sent }));
    this.#transfer.move(count, sent.length);
    this.#ahead += 1;
    if (this.#ahead === 1) this.#limitTaking();
  }

  end(cachedTokens: number): void {
    this.#cachedTokens = cachedTokens;
    this.#endIfComputed();
  }

  /** The engine has ended the request, with what it tells of its prompt's tokens. */
  computed(logprobs: readonly PromptLogprobs[] | undefined): void {
    this.#logprobs = logprobs;
    this.#isComputed = true;
    if (this.#isAborted) this.abort();
    this.#endIfComputed();
  }

  /** The request is aborted: what its engine has computed of it is sent no further. */
  abort(): void {
    if (this.#state.isOver) return;
    this.#isAborted = true;
    // The engine itself ends a request that it still computes.
    if (this.#isComputed) this.fail(new DOMException("Aborted", "AbortError"));
  }

  /** The decode server wants pages from `first` on. */
  want(first: number): void {
    if (this.#first !== undefined) return;
    clearTimeout(this.#timer);
    this.#first = first;
    this.#tell();
  }

  /** The oldest pages that were sent are in place. */
  taken(): void {
    if (this.#ahead === 0) return;
    this.#ahead -= 1;
    this.#options.gate.leave();
    clearTimeout(this.#timer);
    if (this.#ahead > 0) this.#limitTaking();
    this.#tell();
  }

  /** The decode server has all of the prompt. */
  skip(): void {
    if (!this.#state.advance("success")) return;
    this.#close(undefined);
    this.#settle.resolve("skipped");
  }

  /** Ends the room, on this side and on the other; nothing to do where it is over. */
  fail(error: unknown, reason?: FailureReason): void {
    const isAborted = (error as Error | undefined)?.name === "AbortError";
    const problem = error instanceof Error ? error.message : String(error);
    this.#fail(error, { problem, reason: reason ?? (isAborted ? "aborted" : "other") });
  }

  /** The other side has ended it, or is lost. */
  lose(problem: string, reason: FailureReason): void {
    this.#peer = undefined;
    const error = new DisaggregationError(this.name, "decode", problem);
    this.#fail(error, { problem, reason });
  }

  #compare(): void {
    if (this.#peer === undefined || this.#digest === undefined) return;
    if (this.#peer.digest === this.#digest) return;
    this.fail(new DisaggregationError(this.name, "decode", "its two sides have different prompts"));
  }

  #endIfComputed(): void {
    if (this.#cachedTokens === undefined || !this.#isComputed) return;
    if (!this.#state.advance("success")) return;
    const { channel, lease } = this.#peer!;
    const say = (message: PrefillMessage) => channel.send(JSON.stringify(message));
    for (const entries of portions(this.#logprobs ?? [])) say({ type: "logprobs", lease, entries });
    say({ type: "end", lease, cachedTokens: this.#cachedTokens });
    this.#transfer.end();
    this.#close(undefined);
    this.#settle.resolve("sent");
  }

  #fail(error: unknown, failure: Omit<RoomFailure, "hasAsked">): void {
    if (!this.#state.advance("failed")) return;
    const { problem } = failure;
    if (this.#peer !== undefined) {
      const { channel, lease } = this.#peer;
      const message: PrefillMessage = { type: "failed", lease, problem: shortened(problem) };
      channel.send(JSON.stringify(message));
    }
    this.#over.abort(error);
    // A decode server that has opened it may wait for a place.
    this.#close({ ...failure, hasAsked: this.#first !== undefined });
    this.#settle.reject(error);
  }

  #close(failure: RoomFailure | undefined): void {
    clearTimeout(this.#timer);
    this.#options.gate.leave(this.#ahead);
    this.#ahead = 0;
    this.#tell();
    this.#options.onOver(failure);
  }

  #limitTaking(): void {
    this.#limit(this.#options.takeTimeout, "decode", "pages that were sent are not taken");
  }

  #limit(milliseconds: number, side: DisaggregatedSide, state: string): void {
    clearTimeout(this.#timer);
    this.#timer = setTimeout(() => {
      const late = `${state} within ${milliseconds / 1000} s (${this.#state.name})`;
      this.fail(new DisaggregationError(this.name, side, late), "timed_out");
    }, milliseconds);
  }

  #tell(): void {
    const news = this.#news;
    this.#news = [];
    for (const one of news) one();
  }

  /** @throws why it has failed. */
  async #until(isSo: () => boolean): Promise<void> {
    for (;;) {
      if (this.#over.signal.aborted) throw this.#over.signal.reason;
      if (isSo()) return;
      await new Promise<void>((resolve) => {
        this.#news.push(resolve);
      });
    }
  }
}

/** Lists that each fit a message. */
function* portions(entries: readonly PromptLogprobs[]): Generator<PromptLogprobs[], void> {
  let portion: PromptLogprobs[] = [];
  let characters = 0;
  for (const entry of entries) {
    portion.push(entry);
    characters += JSON.stringify(entry).length;
    if (characters < LOGPROB_CHARACTERS) continue;
    yield portion;
    portion = [];
    characters = 0;
  }
  if (portion.length > 0) yield portion;
}
