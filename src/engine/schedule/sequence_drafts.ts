/**
 * The drafts of one sequence: tokens that may follow its last one, which the next step verifies, and
 * how many of them were right so far.
 *
 * @module
 */

import type { Continuation } from "../../layers/batch.ts";
import { chainParents, keepNodes } from "../../speculation/draft_nodes.ts";
import type { SpeculationFigures } from "../../speculation_figures.ts";

export const NO_FIGURES: SpeculationFigures = {
  verifySteps: 0,
  proposedDrafts: 0,
  acceptedDrafts: 0,
};

/** Drafts tokens from what a sequence's tokens are. What it gives, right or wrong, changes no answer. */
export interface Drafter {
  /** Takes the tokens that follow those it has. */
  append(tokens: readonly number[]): void;
  /** @returns At most `most` tokens that may follow. */
  propose(most: number): readonly number[];
  /**
   * Tokens that agree where it found what it proposed last: the more, the likelier that is right.
   * Default 0, which says nothing.
   */
  readonly matched?: number;
}

export interface DraftOptions {
  /** Absent where steps make the drafts. */
  readonly drafter?: Drafter | undefined;
  /** Drafts that one step verifies at most. */
  readonly most: number;
  /** Nothing follows them. */
  readonly endTokens: ReadonlySet<number>;
  /** Ids from here on are rows of images, of which a drafter was told as of tokens. Default: none is. */
  readonly vocabularySize?: number | undefined;
  /** Whether the answer depends on how many there are. Default false. */
  readonly decide?: boolean | undefined;
  /** What drafters may take in this step. Default: each as much as it may alone. */
  readonly told?: ToldTokens | undefined;
  /**
   * Drafts of a path at most, where steps make trees: of each draft a token, then of each a parent.
   * Default: drafts follow each other.
   */
  readonly treeDepth?: number | undefined;
}

/** Tokens that are left where drafts are still made. */
export const LEAST_LEFT = 3;

const NONE: readonly number[] = [];
const NO_STEP: StepInFlight = { verified: 0, made: undefined };
/** Tokens of a long prompt that a drafter takes in a step, while it proposes nothing. */
const TOLD_AT_ONCE = 4096;
/** Tokens of prompts that the drafters of all sequences take in a step. */
export const TOLD_IN_A_STEP = 8192;
/** What one step gives a sequence at most is never put off. */
const NEW_TOKENS = 64;

/** How many tokens of long prompts drafters may still take in this step, whatever its sequences. */
export class ToldTokens {
  #left = TOLD_IN_A_STEP;

  /** A step begins. */
  renew(): void {
    this.#left = TOLD_IN_A_STEP;
  }

  /** @returns How many of so many tokens a drafter takes now. */
  take(wanted: number): number {
    if (wanted <= NEW_TOKENS) return wanted;
    const taken = Math.min(wanted, this.#left);
    this.#left -= taken;
    return taken;
  }
}

/** Drafts that a step makes for a sequence. */
export interface MadeDrafts {
  /** The sequence's number among those that it drafts for. */
  readonly place: number;
  /** Those that the next step is to verify. */
  readonly count: number;
}

/** What a step does for a sequence. */
interface StepInFlight {
  /** Drafts that it verifies. */
  readonly verified: number;
  readonly made: MadeDrafts | undefined;
}

/** Where a row stands among drafts. */
export interface DraftedRow {
  /** Its number among the rows of its sequence that are verified. Default 0. */
  readonly node?: number;
  /** The drafts in front of it. Default none. */
  readonly drafted?: readonly number[] | undefined;
  /** How many rows before it each is drawn. Default: one behind the other. */
  readonly drawnBefore?: readonly number[];
}

/** Drafts, and where they are a tree the nodes that they follow. */
export interface MadeNodes {
  readonly drafts: readonly number[];
  readonly parents?: readonly number[];
}

/** What a step did with drafts. */
export interface VerifiedDrafts {
  /** Those that it verified. Default none. */
  readonly drafts?: readonly number[];
  /** The nodes that they follow, where they were a tree. Default: they followed each other. */
  readonly parents?: readonly number[] | undefined;
  /** Drafts of what follows its tokens, where it made some. */
  readonly proposed?: readonly number[] | undefined;
}

export class SequenceDrafts {
  readonly #options: DraftOptions;
  #next = NONE;
  /** The nodes that they follow, where they are a tree. */
  #parents: readonly number[] | undefined;
  /** What the newest step of which the results are known has made, whatever became of it here. */
  #made = NONE;
  /** The oldest first. */
  #inFlight: StepInFlight[] = [];
  #figures: SpeculationFigures = NO_FIGURES;
  /** Tokens that the drafter was told. */
  #told = 0;
  /** Drafts that the step of which the results came last has made to be verified. */
  #wanted = Number.POSITIVE_INFINITY;

  constructor(options: DraftOptions) {
    this.#options = options;
  }

  /** Tokens that may follow the last one that is known. */
  get next(): readonly number[] {
    return this.#next;
  }

  /** Of a tree, the nodes that they follow; else they follow each other. */
  get parents(): readonly number[] | undefined {
    return this.#parents;
  }

  /** Tokens that agree where drafts come from the text; else 0. */
  get matched(): number {
    return this.#options.drafter?.matched ?? 0;
  }

  get figures(): SpeculationFigures {
    return this.#figures;
  }

  /** Whether the GPU can go on from what the newest step in flight drafts. */
  get continues(): boolean {
    // Which nodes stand behind which, coins have to know.
    if (this.#options.treeDepth !== undefined && this.#options.decide === true) return false;
    return this.#newest.made !== undefined;
  }

  /** Where it does: `slack` counts steps in flight only. */
  get continuation(): Continuation {
    const { treeDepth: depth } = this.#options;
    const from = this.#newest.made!.place;
    return { from, slack: this.slack, ...(depth !== undefined && { depth }) };
  }

  /** So many of the drafts that a row was in flight for before they were known here. */
  made(count: number): MadeNodes {
    const drafts = this.#made.slice(0, count);
    if (this.#options.treeDepth === undefined) return { drafts };
    const nodes = this.#made.length / 2;
    return { drafts, parents: this.#made.slice(nodes, nodes + count) };
  }

  /** Drafts that one step verifies at most. */
  get most(): number {
    return this.#options.most;
  }

  /** Drafts that the newest step in flight makes, as far as the next one verifies them. */
  get coming(): number {
    const { made } = this.#newest;
    if (made === undefined) return 0;
    const { most, treeDepth } = this.#options;
    return treeDepth === undefined ? Math.min(made.count, most) : most;
  }

  /** Tokens that steps in flight may give the sequence besides the pending ones. */
  get slack(): number {
    const { treeDepth: depth = Number.POSITIVE_INFINITY } = this.#options;
    return this.#inFlight.reduce((sum, { verified }) => sum + Math.min(verified, depth), 0);
  }

  /**
   * Whether the next row is better made when it is known what steps in flight leave: the GPU can go on
   * only from drafts that it has made itself.
   */
  get isWaited(): boolean {
    if (this.continues) return false;
    return this.slack > 0 || this.#next.length > 0 || this.#newest.made !== undefined;
  }

  /**
   * Whether the next row has to wait until it is known how many tokens are left, `left` at most: near
   * the answer's end there are fewer drafts, and where these decide it must not matter what is known.
   */
  isCountedDown(left: number): boolean {
    const { most, decide = false } = this.#options;
    return decide && left - this.slack < Math.max(most + 1, LEAST_LEFT);
  }

  /** Takes note of a step that verifies so many drafts, and may make others. */
  begin(verified: number, made: MadeDrafts | undefined): void {
    this.#inFlight.push(verified === 0 && made === undefined ? NO_STEP : { verified, made });
  }

  get #newest(): StepInFlight {
    return this.#inFlight.at(-1) ?? NO_STEP;
  }

  /**
   * Drafts what may follow.
   *
   * @param tokens All of the sequence.
   * @param options `room`: tokens that it may still get behind its next one; `proposed`: what a step
   * made.
   */
  propose(
    tokens: readonly number[],
    { room, proposed }: { readonly room: number; readonly proposed: readonly number[] | undefined },
  ): readonly number[] {
    const { most, endTokens, vocabularySize = Number.POSITIVE_INFINITY } = this.#options;
    const wanted = Math.min(most, room);
    this.#made = proposed ?? NONE;
    const kept = Math.max(Math.min(wanted, this.#wanted), 0);
    if (this.#options.treeDepth !== undefined) return this.#takeTree(proposed ?? NONE, room);
    const drafts = proposed?.slice(0, kept) ?? this.#ask(tokens, wanted);
    const last = drafts.findIndex((token) => endTokens.has(token) || token >= vocabularySize);
    const isEnd = last !== -1 && drafts[last]! < vocabularySize;
    this.#next = last === -1 ? drafts : drafts.slice(0, isEnd ? last + 1 : last);
    return this.#next;
  }

  /** Without nodes that are deeper than there is room, or behind an end. */
  #takeTree(proposed: readonly number[], room: number): readonly number[] {
    const { most, endTokens } = this.#options;
    const count = proposed.length / 2;
    const [tokens, parents] = [proposed.slice(0, count), proposed.slice(count)];
    const isEnd = (node: number) => node > 0 && endTokens.has(tokens[node - 1]!);
    const left = keepNodes({ tokens, parents }, (draft, depth) => {
      return draft < most && depth <= room && !isEnd(parents[draft]!);
    });
    this.#next = left.tokens;
    this.#parents = left.tokens.length === 0 ? undefined : left.parents;
    return this.#next;
  }

  #ask(tokens: readonly number[], wanted: number): readonly number[] {
    const { drafter, told } = this.#options;
    if (drafter === undefined) return NONE;
    const due = Math.min(tokens.length - this.#told, TOLD_AT_ONCE);
    const end = this.#told + (told?.take(due) ?? due);
    drafter.append(tokens.slice(this.#told, end));
    this.#told = end;
    return wanted > 0 && end === tokens.length ? drafter.propose(wanted) : NONE;
  }

  /** Forgets the drafts: the tokens before them are others now. */
  clear(): void {
    this.#next = NONE;
    this.#parents = undefined;
  }

  /** Keeps the drafts of these numbers, with each of which all are kept that it is behind. */
  keep(kept: readonly number[]): void {
    const parents = this.#parents ?? chainParents(this.#next.length);
    const isKept = new Set(kept);
    const left = keepNodes({ tokens: this.#next, parents }, (draft) => isKept.has(draft));
    this.#next = left.tokens;
    if (this.#parents !== undefined) {
      this.#parents = left.tokens.length === 0 ? undefined : left.parents;
    }
  }

  /** Takes note of a step that has verified so many. */
  verified(proposed: number): void {
    this.#figures = withStep(this.#figures, proposed, 0);
  }

  /** Takes note of one of them that was right: the sequence takes one token more. */
  accepted(): void {
    this.#figures = { ...this.#figures, acceptedDrafts: this.#figures.acceptedDrafts + 1 };
  }

  /** Takes note that the oldest step in flight has ended. */
  end(): void {
    this.#wanted = this.#inFlight.shift()?.made?.count ?? 0;
  }

  /** Takes note that no step in flight ever ends. */
  lose(): void {
    this.#inFlight = [];
  }
}

/** With one more time that a step sampled a request's tokens. */
export function withStep(
  figures: SpeculationFigures,
  proposedDrafts: number,
  acceptedDrafts: number,
): SpeculationFigures {
  return sumOf(figures, { verifySteps: 1, proposedDrafts, acceptedDrafts });
}

export function sumOf(one: SpeculationFigures, other: SpeculationFigures): SpeculationFigures {
  return {
    verifySteps: one.verifySteps + other.verifySteps,
    proposedDrafts: one.proposedDrafts + other.proposedDrafts,
    acceptedDrafts: one.acceptedDrafts + other.acceptedDrafts,
  };
}
