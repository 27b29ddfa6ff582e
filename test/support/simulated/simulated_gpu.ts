/**
 * A GPU that is played: it computes the rows of steps from what stands in the cache, draws their tokens
 * under their masks, and drafts.
 *
 * @module
 */
import { FROM_SAMPLED } from "../../../kernels/embedding/embedding.ts";
import type { SampledRow } from "../../../src/engine/sample/sampled_row.ts";
import type { ScheduledStep } from "../../../src/engine/schedule/scheduled_step.ts";
import type { Sequence } from "../../../src/engine/schedule/sequence.ts";
import type { DraftTreeSizes } from "../../../src/layers/tree_tensors.ts";
import { require } from "./require.ts";
import { type Accepted, acceptedOf, draftStep, type Place, placesOf } from "./simulated_drafts.ts";
import type { PlayedRules } from "./simulated_grammar.ts";
import { GENERATED, longer, nextToken, PlayedText, startOf } from "./simulated_model.ts";

export interface SimulatedGpuOptions {
  readonly pageSize: number;
  readonly promptsDiffer?: boolean;
  readonly tree?: DraftTreeSizes | undefined;
  /** One draft in so many is wrong. */
  readonly wrongDrafts?: number | undefined;
}

/** What a step leaves. */
export interface Results {
  readonly ids: Uint32Array;
  readonly drafts: readonly Uint32Array[];
}

export class SimulatedGpu {
  /** What stands in each slot of the cache: the number of the prefix whose last token is there. */
  readonly slots = new Map<number, number>();
  readonly counts = { drafted: 0, accepted: 0, moved: 0 };
  readonly #options: SimulatedGpuOptions;
  /** Tokens of each sequence, those included that no client has seen yet. */
  readonly #tokens = new Map<Sequence, number[]>();
  readonly #rules = new Map<Sequence, PlayedRules>();
  /** What the newest step has sampled. */
  #sampled: Uint32Array = new Uint32Array(0);
  /** What it has drafted, by its sequences. */
  #drafted: readonly Uint32Array[] = [];

  constructor(options: SimulatedGpuOptions) {
    this.#options = options;
  }

  /** A sequence comes, which may have a grammar. */
  add(one: Sequence, rules: PlayedRules | undefined): void {
    this.#tokens.set(one, [...one.tokens]);
    if (rules !== undefined) this.#rules.set(one, rules);
  }

  /** Another device: nothing is in its cache, and what steps in flight have sampled is not known. */
  lose(live: Iterable<Sequence>): void {
    this.slots.clear();
    for (const one of live) this.#tokens.set(one, [...one.tokens]);
  }

  rulesOf(one: Sequence): PlayedRules | undefined {
    return this.#rules.get(one);
  }

  /** Drafts behind what is known of a sequence. */
  textOf(one: Sequence, tokens: readonly number[] = this.#tokens.get(one)!): PlayedText {
    const { promptLength, partition } = one;
    return new PlayedText({ tokens: [...tokens], promptLength, partition }, this.#rules.get(one));
  }

  /** @throws {Error} when a row of the step is none that it may have. */
  run(step: ScheduledStep, rows: readonly SampledRow[]): Results {
    for (const { sequence } of step.progress) this.#takeForced(sequence);
    const tokensOf = (one: Sequence) => this.#tokens.get(one)!;
    const places = placesOf(step, this.#drafted, tokensOf);
    const { ids, accepted } = this.#compute(step, places, rows);
    const { tree, wrongDrafts: wrong } = this.#options;
    const textOf = (one: Sequence) => this.textOf(one);
    this.#drafted = draftStep(step, places, { ids, accepted, tokensOf, textOf, tree, wrong });
    return { ids, drafts: this.#drafted };
  }

  /** Tokens that no step has drawn. */
  #takeForced(one: Sequence): void {
    const tokens = this.#tokens.get(one)!;
    for (let i = tokens.length; i < one.tokens.length; i++) tokens.push(one.tokens[i]!);
  }

  /** Plays the step: each row reads the row before it from the cache, and all those before that. */
  #compute(
    { batch, sampled }: ScheduledStep,
    places: readonly Place[],
    rows: readonly SampledRow[],
  ) {
    const { slots } = this;
    require(batch.sources.length <= 16, "too many rows");
    const written = new Set<number>();
    let row = 0;
    let isPrefill = false;
    /** What stands behind the last token of each sequence, and behind each of its drafts. */
    const last = new Map<Sequence, number[]>();
    for (const q of places) {
      const { owner, computed, drafted } = q;
      const { promptLength, partition } = owner;
      isPrefill ||= q.phase === "prefill";
      // Generated rows stand in front, and each row runs the form that belongs to its token.
      const form = drafted.length > 0 ? "verify" : "decode";
      require(q.phase === (isPrefill ? "prefill" : form), "rows are out of order");
      require(q.position < promptLength === isPrefill, "a row has the wrong form");
      require(!isPrefill || computed <= promptLength, "a prompt row goes too far");
      const end = q.position + q.queryLength;
      require(q.queryStart === row && computed === end - drafted.length, "a row is missing");
      const slotOf = (at: number) => this.#slot(q.pageTable, at);
      const tokens = this.#tokens.get(owner)!;
      const found: number[] = [];
      for (let at = q.position; at < end; at++, row++) {
        const isDraft = at >= computed;
        const wanted = isDraft ? drafted[at - computed] : tokens[at];
        const isKnown = isDraft || at < owner.tokens.length;
        const token = q.continues ? wanted! : this.#token(batch.sources[row]!, isKnown);
        require(token === wanted || owner.finish !== null, "a row has another token");
        const above = q.position + (q.tree?.parents[at - q.position] ?? at - q.position - 1);
        const before = above < 0 ? startOf(partition) : (slots.get(slotOf(above)) ?? 0);
        require(!written.has(slotOf(at)), "a slot is written twice");
        written.add(slotOf(at));
        slots.set(slotOf(at), longer(before, token) + (isPrefill ? 0 : GENERATED));
        if (at >= computed - 1) found.push(slots.get(slotOf(at))!);
      }
      last.set(owner, found);
    }
    for (const place of places) this.#checkReads(place);
    const ids = Uint32Array.from(sampled, (one, i) =>
      nextToken(last.get(one)!.shift()!, rows[i]!.mask),
    );
    const accepted = acceptedOf(sampled, ids, places);
    this.#append(accepted);
    this.#sampled = ids;
    return { ids, accepted };
  }

  /** Gives each sequence the token drawn first, and those behind drafts that were right. */
  #append(accepted: readonly Accepted[]): void {
    for (const { place, rows, drawn } of accepted) {
      const { owner, tree, position, pageTable } = place;
      this.#tokens.get(owner)!.push(...drawn);
      this.counts.drafted += place.drafted.length;
      this.counts.accepted += rows.length - 1;
      if (tree === undefined) continue;
      // The entries of the path move together.
      rows.forEach((row, depth) => {
        const found = this.slots.get(this.#slot(pageTable, position + row))!;
        this.slots.set(this.#slot(pageTable, position + depth), found);
        if (row !== depth) this.counts.moved += 1;
      });
    }
  }

  /** A sequence that has left reads what it likes. */
  #checkReads({ pageTable, owner: one, computed }: Place): void {
    if (one.finish !== null) return;
    const { promptsDiffer } = this.#options;
    const tokens = this.#tokens.get(one)!;
    let prefix = startOf(one.partition);
    for (let at = 0; at < computed; at++) {
      prefix = longer(prefix, tokens[at]!);
      const found = this.slots.get(this.#slot(pageTable, at)) ?? 0;
      require((found & ~GENERATED) >>> 0 === prefix, `another prefix stands at ${at}`);
      const isWrong = promptsDiffer && at >= one.promptLength && found === prefix;
      require(!isWrong, "a generated token was computed as a prompt's");
    }
  }

  #token(source: number, isKnown: boolean): number {
    require(source < FROM_SAMPLED ===
      isKnown, "a known token is taken from the GPU, or the reverse");
    return isKnown ? source : this.#sampled[source - FROM_SAMPLED]!;
  }

  #slot(pageTable: readonly number[], at: number): number {
    const { pageSize } = this.#options;
    require(at < pageTable.length * pageSize, "a row has no page");
    return pageTable[Math.floor(at / pageSize)]! * pageSize + (at % pageSize);
  }
}
