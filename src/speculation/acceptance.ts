/**
 * How often the target accepts drafts: by their place, of those whose predecessors were accepted.
 *
 * The place of a draft by a model is how far it is from the newest token. A draft by a text goes on
 * with a match: its place is how many tokens agree in front of it, those of the match and the drafts
 * before it. So what one token behind a long match has shown is known of the last draft behind a short
 * one.
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
/**
 * Of a cautious estimate: the most outcomes that an average is worth, as older ones fade, and the
 * refusals that it adds to them.
 */
const MOST_WORTH = 1 / NEWEST;
const FEARED = 0.5;
/** Tokens of a match that count: longer ones are one kind. */
const LONGEST_MATCH = 12;

/** Exponential averages, one for each draft in order. */
export class Acceptance {
  readonly #general: Acceptance | undefined;
  /** Averages of what was seen, and of how many outcomes. */
  readonly #averages: number[] = [];
  readonly #counts: number[] = [];

  readonly #isCautious: boolean;

  /**
   * @param general What all sequences have shown, for one of them.
   * @param options `isCautious`: whether estimates are rather too low, which suits drafts of which it is
   * known without verifying them whether they are right: nothing has to be tried. Default false.
   */
  constructor(
    general?: Acceptance,
    { isCautious = false }: { readonly isCautious?: boolean } = {},
  ) {
    this.#general = general;
    this.#isCautious = isCautious;
  }

  /**
   * The share of accepted drafts at each place, in 0..1: what was seen, and as long as that is
   * little, what all sequences have shown; where none has shown any, what is thought of the place
   * before.
   *
   * @param count Drafts from the one behind the newest token on.
   * @param matched Tokens of the match that they go on with; 0 for drafts by a model.
   */
  rates(count: number, matched = 0): number[] {
    if (matched === 0) return this.#ratesOf(count);
    const rates = this.#ratesOf(placeOf(matched, count - 1) + 1);
    return Array.from({ length: count }, (_, draft) => rates[placeOf(matched, draft)]!);
  }

  #ratesOf(places: number): number[] {
    const general = this.#general?.rates(places);
    const worth = general === undefined ? FIRST_WORTH : GENERAL_WORTH;
    const [mostWorth, feared] = this.#isCautious
      ? [MOST_WORTH, FEARED]
      : [Number.POSITIVE_INFINITY, 0];
    const rates: number[] = [];
    let before = AT_FIRST;
    for (let i = 0; i < places; i++) {
      const prior = this.#general?.hasSeen(i) ? general![i]! : before;
      const count = Math.min(this.#counts[i] ?? 0, mostWorth);
      const all = count + worth + feared;
      before = (count * (this.#averages[i] ?? 0) + worth * prior) / all;
      rates.push(before);
    }
    return rates;
  }

  /** Whether a draft at this place was verified, and those before it accepted, here or in general. */
  hasSeen(place: number): boolean {
    return this.#counts[place] !== undefined || this.#general?.hasSeen(place) === true;
  }

  /** One more outcome: so many drafts, behind such a match, were verified, and so many accepted. */
  add(verified: number, accepted: number, matched = 0): void {
    // Those behind the first refused draft follow a token that the sequence does not have.
    for (let draft = 0; draft < Math.min(verified, accepted + 1); draft++) {
      const i = placeOf(matched, draft);
      const count = (this.#counts[i] ?? 0) + 1;
      const average = this.#averages[i] ?? 0;
      const weight = Math.max(NEWEST, 1 / count);
      this.#averages[i] = average + ((draft < accepted ? 1 : 0) - average) * weight;
      this.#counts[i] = count;
    }
  }
}

function placeOf(matched: number, draft: number): number {
  return matched === 0 ? draft : Math.min(matched + draft, LONGEST_MATCH);
}
