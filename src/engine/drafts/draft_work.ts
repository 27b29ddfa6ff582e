/**
 * What a step does for the drafts of the next one, and who is told what became of them.
 *
 * @module
 */
import type { Sequence } from "../schedule/sequence.ts";

export interface DraftWork {
  /** Drafts that the step makes for each sequence that it drafts for; 0 where it makes none. */
  readonly steps: number;
  /** Whether its rows enter the draft module's cache: always where it makes drafts. */
  readonly enters: boolean;
  /** Of drafts made for a sequence, how many the next step verifies; 0 has none made for it. */
  countOf(sequence: Sequence): number;
}

export interface DraftJudge {
  /** Takes note that so many drafts of a sequence were verified, and so many accepted. */
  verified(sequence: Sequence, verified: number, accepted: number): void;
}
