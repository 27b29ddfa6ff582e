/**
 * How often the target accepts drafts: by how far they are from the newest token, of those whose
 * predecessors were accepted.
 *
 * @module
 */

/** What is thought of drafts before any is seen: well, so that the first ones are tried. */
const AT_FIRST = 0.8;
/** How many outcomes that is worth, and how many of a sequence what all have shown is worth. */
const FIRST_WORTH = 1;
const GENERAL_WORTH = 4;
/** The weight of a new outcome, once there are several. */
const NEWEST = 0.07;

/** Exponential averages, one for each draft in order. */
export class Acceptance {
  readonly #general: Acceptance | undefined;
  /** Averages of what was seen, and of how many outcomes. */
  readonly #averages: number[] = [];
  readonly #counts: number[] = [];

  /** @param general What all sequences have shown, for one of them. */
  constructor(general?: Acceptance) {
    this.#general = general;
  }

  /**
   * The share of accepted drafts at each place, in 0..1: what was seen, and as long as that is
   * little, what all sequences have shown; where none has shown any, what is thought of the place
   * before.
   *
   * @param places From the draft behind the newest token on.
   */
  rates(places: number): number[] {
    const general = this.#general?.rates(places);
    const worth = general === undefined ? FIRST_WORTH : GENERAL_WORTH;
    const rates: number[] = [];
    let before = AT_FIRST;
    for (let i = 0; i < places; i++) {
      const prior = this.#general?.hasSeen(i) ? general![i]! : before;
      const count = this.#counts[i] ?? 0;
      before = (count * (this.#averages[i] ?? 0) + worth * prior) / (count + worth);
      rates.push(before);
    }
    return rates;
  }

  /** Whether a draft at this place was verified, and those before it accepted, here or in general. */
  hasSeen(place: number): boolean {
    return place < this.#counts.length || this.#general?.hasSeen(place) === true;
  }

  /** One more outcome: so many drafts were verified, and so many of them accepted. */
  add(verified: number, accepted: number): void {
    // Those behind the first refused draft follow a token that the sequence does not have.
    for (let i = 0; i < Math.min(verified, accepted + 1); i++) {
      const count = (this.#counts[i] ?? 0) + 1;
      const average = this.#averages[i] ?? 0;
      const weight = Math.max(NEWEST, 1 / count);
      this.#averages[i] = average + ((i < accepted ? 1 : 0) - average) * weight;
      this.#counts[i] = count;
    }
  }
}
