/**
 * One request on a decode server: what its engine lacks of the prompt comes from the prefill server
 * whose room it is.
 *
 * @module
 */
import type { PageRun, PageSource, TravellingPrompt } from "../engine/transfer/page_routes.ts";
import { DisaggregationError } from "../errors.ts";
import type { PromptLogprobs } from "../logprobs.ts";
import type { ArrivingPages } from "./arriving_pages.ts";
import { promptDigest } from "./handshake.ts";
import { MAX_FRAMES_AHEAD } from "./limits.ts";
import { type DecodeMessage, type PrefillMessage, shortened } from "./messages.ts";
import {
  type FailureReason,
  type RoomFailure,
  type RoomFigures,
  RoomTransfer,
} from "./room_figures.ts";
import { RoomState } from "./room_state.ts";

/** A connection to the prefill server, as a room needs it. */
export interface PrefillPeer {
  readonly lease: number;
  /** Makes of pages that come what the engine takes from page `first` on. */
  arriving(prompt: TravellingPrompt, first: number): ArrivingPages;
  say(message: DecodeMessage): void;
}

/** Why there is none. */
export interface LostPeer {
  readonly lost: string;
}

export interface DecodeRoomOptions {
  readonly room: string;
  /** Of a request that asks for log-probabilities of its prompt. */
  readonly wantsLogprobs: boolean;
  /** Milliseconds until all pages must be there, from when they are asked for. */
  readonly waitTimeout: number;
  /** Connects to the prefill server. */
  readonly connect: () => Promise<PrefillPeer | LostPeer>;
  readonly figures: RoomFigures;
  /** Called once, when it is over. */
  readonly onOver: (failure: RoomFailure | undefined) => void;
}

export class DecodeRoom implements PageSource {
  readonly #options: DecodeRoomOptions;
  readonly #state = new RoomState();
  readonly #transfer: RoomTransfer;
  #prompt: TravellingPrompt | undefined;
  #peer: PrefillPeer | undefined;
  #error: DisaggregationError | undefined;
  /** Pages that have come and are not in place. */
  readonly #runs: PageRun[] = [];
  readonly #logprobs: PromptLogprobs[] = [];
  #cachedTokens = 0;
  #hasEnd = false;
  #tell: () => void = () => {};
  #timer: ReturnType<typeof setTimeout> | undefined;

  constructor(options: DecodeRoomOptions) {
    this.#options = options;
    this.#transfer = new RoomTransfer(options.figures);
  }

  get name(): string {
    return this.#options.room;
  }

  get state(): RoomState["name"] {
    return this.#state.name;
  }

  get isOver(): boolean {
    return this.#state.isOver;
  }

  /** Why it has failed. */
  get error(): DisaggregationError | undefined {
    return this.#error;
  }

  /** Of the prompt, once all pages are there. */
  get promptLogprobs(): readonly PromptLogprobs[] {
    return this.#logprobs;
  }

  /** Tokens that the prefill server had in its cache. */
  get cachedTokens(): number {
    return this.#cachedTokens;
  }

  announce(prompt: TravellingPrompt): void {
    this.#prompt = prompt;
    const digest = promptDigest(prompt);
    void this.#options.connect().then((peer) => {
      if ("lost" in peer) {
        this.fail(peer.lost, "lost");
        return;
      }
      this.#peer = peer;
      if (this.#state.isOver) return;
      peer.say({ type: "open", lease: peer.lease, room: this.name, digest });
      this.#tell();
    });
  }

  async *pages(first: number): AsyncGenerator<PageRun, void> {
    await this.#until(() => this.#peer !== undefined);
    const { lease } = this.#peer!;
    if (first === this.#prompt!.pageCount && !this.#options.wantsLogprobs) {
      this.#peer!.say({ type: "done", lease });
      this.#succeed();
      return;
    }
    this.#state.advance("waiting for input");
    const { waitTimeout } = this.#options;
    this.#timer = setTimeout(
      () => this.fail(`its pages have not come within ${waitTimeout / 1000} s`, "timed_out"),
      waitTimeout,
    );
    this.#transfer.begin();
    const arriving = this.#peer!.arriving(this.#prompt!, first);
    this.#peer!.say({ type: "want", lease, first: arriving.first });
    for (;;) {
      await this.#until(() => this.#runs.length > 0 || this.#hasEnd);
      const run = this.#runs.shift();
      if (run === undefined) break;
      const formed = arriving.take(run);
      if (formed !== undefined) yield formed;
      // It is asked for the next one once this one is in place.
      if (!this.#hasEnd) this.#peer!.say({ type: "taken", lease });
    }
    if (!this.#state.isOver) this.#transfer.end();
    this.#succeed();
  }

  leave(): void {
    this.#end({ problem: "the decode server has left it", reason: "aborted" }, undefined);
  }

  /** The prefill server is lost, has ended it, or says what it may not. */
  fail(problem: string, reason: FailureReason = "other"): void {
    if (this.#state.isOver) return;
    this.#error = new DisaggregationError(this.name, "prefill", problem);
    this.#end({ problem, reason }, this.#error);
  }

  /** Pages have come. */
  take(run: PageRun): void {
    if (this.#state.isOver) return;
    if (this.#state.name === "bootstrapping" || this.#hasEnd) {
      this.fail("pages have come that were not asked for");
      return;
    }
    this.#state.advance("transferring");
    if (this.#runs.length >= MAX_FRAMES_AHEAD) {
      this.fail(`more than ${MAX_FRAMES_AHEAD} messages with pages are ahead`);
      return;
    }
    this.#transfer.move(run.count, run.bytes.length);
    this.#runs.push(run);
    this.#tell();
  }

  hear(message: PrefillMessage): void {
    if (this.#state.isOver) return;
    if (message.type === "failed") {
      this.fail(message.problem, "other_server");
      return;
    }
    if (message.type === "logprobs") {
      const { entries } = message;
      if (this.#logprobs.length + entries.length > this.#prompt!.tokens.length) {
        this.fail("there are more log-probabilities than tokens");
        return;
      }
      for (const entry of entries) this.#logprobs.push(entry);
    }
    if (message.type !== "end") return;
    this.#cachedTokens = message.cachedTokens;
    this.#hasEnd = true;
    this.#tell();
  }

  #succeed(): void {
    if (!this.#state.advance("success")) return;
    clearTimeout(this.#timer);
    this.#options.onOver(undefined);
  }

  #end(failure: Omit<RoomFailure, "hasAsked">, error: DisaggregationError | undefined): void {
    const hasAsked = this.#state.name !== "bootstrapping";
    if (!this.#state.advance("failed")) return;
    const { problem } = failure;
    clearTimeout(this.#timer);
    this.#error ??= error ?? new DisaggregationError(this.name, "decode", problem);
    this.#runs.length = 0;
    const lease = this.#peer?.lease;
    if (lease !== undefined) {
      this.#peer!.say({ type: "leave", lease, problem: shortened(problem) });
    }
    this.#tell();
    this.#options.onOver({ ...failure, hasAsked });
  }

  /** @throws why it has failed. */
  async #until(isSo: () => boolean): Promise<void> {
    for (;;) {
      if (this.#state.name === "failed") throw this.#error;
      if (isSo()) return;
      await new Promise<void>((resolve) => {
        this.#tell = resolve;
      });
    }
  }
}
