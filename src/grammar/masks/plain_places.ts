/**
 * From which places of a grammar plain text leads on, whatever characters it has.
 *
 * It is told by a single way to read the text, so that no other one has to be followed: inside of a key
 * that may be any of an object's, a hundred others that it might still become make no difference. What
 * is found is exact, but not all there is: `TextRegions` looks further.
 *
 * @module
 */
import type { Configuration, Configurations } from "../automaton/configurations.ts";
import type { Frame, Thread } from "../automaton/frames.ts";
import { ENDLESS, IS_COUNTED, PLAIN_TEXT } from "../automaton/plain_text.ts";
import { Enclosure } from "./enclosure.ts";
import { PlainLoops } from "./plain_loops.ts";

/** What leads on from a place. */
export interface PlainLead {
  /** Characters of plain text, any of which lead on; infinite where there is no last one. */
  readonly length: number;
  /** Deepest stack on the way, with what it needs to get out. */
  readonly reach: number;
}

/** Bytes from each one up that plain text may have: those of longer characters count as all. */
const PLAIN_FROM = new Uint16Array(257);
for (let byte = 255; byte >= 0; byte--) {
  const isPlain = byte >= 0x80 || PLAIN_TEXT.some(([first, last]) => first <= byte && byte <= last);
  PLAIN_FROM[byte] = PLAIN_FROM[byte + 1]! + (isPlain ? 1 : 0);
}
const LAST_CONTROL = 0x1f;

export class PlainPlaces {
  readonly #configurations: Configurations;
  readonly #loops: PlainLoops;
  readonly #enclosure: Enclosure;

  constructor(configurations: Configurations) {
    this.#configurations = configurations;
    this.#loops = new PlainLoops(configurations);
    this.#enclosure = new Enclosure(configurations, {
      passes: (first, last) => PLAIN_FROM[first]! > PLAIN_FROM[last + 1]!,
      ends: (first) => first <= LAST_CONTROL,
    });
  }

  /** How far any plain text leads on from a configuration; undefined where that is not known. */
  lead({ threads }: Configuration): PlainLead | undefined {
    let best: PlainLead | undefined;
    for (const thread of threads) {
      const lead = this.#leadOf(thread);
      if (lead === undefined || lead.length <= (best?.length ?? 0)) continue;
      if (lead.length === Number.POSITIVE_INFINITY) return lead;
      best = lead;
    }
    return best;
  }

  #leadOf({ node, frame }: Thread): PlainLead | undefined {
    const { plain, depthNeeds } = this.#configurations.automaton;
    if (plain.lengths[node]! > 0) {
      const isCounted = (plain.exits[node]! & IS_COUNTED) !== 0;
      // The character that began here is counted already.
      const most = isCounted ? frame.toMax + 1 - plain.needs[node]! : Number.POSITIVE_INFINITY;
      const length = plain.lengths[node] === ENDLESS ? most : Math.min(plain.lengths[node]!, most);
      return { length, reach: frame.depth + depthNeeds[node]! };
    }
    return (
      this.#loopOf(node, frame) ??
      (frame.back >= 0 ? this.#loopOf(node, frame.parent!, frame.back) : undefined)
    );
  }

  #loopOf(node: number, frame: Frame, back?: number): PlainLead | undefined {
    const isRound =
      frame.repeat >= 0 &&
      this.#configurations.automaton.repeats[frame.repeat]!.mostNeeded === undefined;
    const repeat = isRound ? frame.repeat : undefined;
    const loop = this.#loops.from({ node, back, repeat });
    if (loop === undefined) return undefined;
    const reach = frame.depth + loop.needs;
    if (reach > this.#configurations.maxDepth) return undefined;
    return { length: isRound ? Math.min(loop.length, frame.toMax) : loop.length, reach };
  }

  /**
   * Whether it is sure that plain text leads from a configuration neither to where a text may end nor to
   * where a control character may follow, as inside of a string.
   */
  isEnclosed(configuration: Configuration): boolean {
    return this.#enclosure.has(configuration);
  }
}
