/**
 * Multiples of a decimal number in plain notation, by division with remainder, digit by digit.
 *
 * @module
 */

import { AutomatonBuilder } from "../../automaton/regular.ts";
import type { CodePointAutomaton } from "../../expression.ts";
import { GrammarError } from "../../grammar_error.ts";
import { type Decimal, decimalText } from "./decimal.ts";

const MAX_STATES = 10_000;

/** Where a text stands in a number. */
type Phase = "start" | "sign" | "zero" | "whole" | "point" | "fraction";

interface State {
  readonly phase: Phase;
  /** Of all digits so far, as one number. */
  readonly remainder: number;
  /** Digits behind the point that were counted in. */
  readonly counted: number;
  /** Whether a digit other than 0 stands where a multiple has none. */
  readonly broken: boolean;
}

export interface Multiples {
  readonly of: Decimal;
  /** Whether multiples are wanted, or all other numbers. */
  readonly holds: boolean;
  /** Of the keyword, for errors. */
  readonly path: string;
}

/** @throws {GrammarError} when it takes too many states. */
export function multiplesOf({ of, holds, path }: Multiples): CodePointAutomaton {
  const places = Math.max(-of.exponent, 0);
  const divisor = of.coefficient * 10n ** BigInt(Math.max(of.exponent, 0));
  if (divisor * BigInt(places + 2) > MAX_STATES) {
    throw new GrammarError(
      `Cannot enforce "multipleOf" ${decimalText(of)}: it has too many digits`,
      {
        path,
      },
    );
  }
  return new Division(Number(divisor), places, holds).build();
}

class Division {
  readonly #builder = new AutomatonBuilder();
  readonly #numbers = new Map<string, number>();
  readonly #states: State[] = [];
  readonly #divisor: number;
  readonly #places: number;
  readonly #holds: boolean;

  constructor(divisor: number, places: number, holds: boolean) {
    this.#divisor = divisor;
    this.#places = places;
    this.#holds = holds;
  }

  build(): CodePointAutomaton {
    this.#number({ phase: "start", remainder: 0, counted: 0, broken: false });
    for (let i = 0; i < this.#states.length; i++) {
      const state = this.#states[i]!;
      if (state.phase === "start") this.#connect(i, "-", { ...state, phase: "sign" });
      if (state.phase === "zero" || state.phase === "whole") {
        this.#connect(i, ".", { ...state, phase: "point" });
      }
      for (let digit = 0; digit < 10; digit++) {
        const next = this.#follow(state, digit);
        if (next !== undefined) this.#connect(i, String(digit), next);
      }
    }
    return this.#builder.build();
  }

  #follow(state: State, digit: number): State | undefined {
    const { phase, remainder, counted, broken } = state;
    const next = (remainder * 10 + digit) % this.#divisor;
    if (phase === "zero") return undefined;
    if (phase === "start" || phase === "sign") {
      return { ...state, phase: digit === 0 ? "zero" : "whole", remainder: next };
    }
    if (phase === "whole") return { ...state, remainder: next };
    if (counted < this.#places) {
      return { phase: "fraction", remainder: next, counted: counted + 1, broken };
    }
    return { ...state, phase: "fraction", broken: broken || digit !== 0 };
  }

  #connect(from: number, character: string, state: State): void {
    const point = character.charCodeAt(0);
    this.#builder.connect(from, { first: point, last: point, target: this.#number(state) });
  }

  #number(state: State): number {
    const { phase, remainder, counted, broken } = state;
    const key = `${phase} ${remainder} ${counted} ${broken}`;
    let known = this.#numbers.get(key);
    if (known === undefined) {
      known = this.#builder.add(this.#accepts(state));
      this.#numbers.set(key, known);
      this.#states.push(state);
    }
    return known;
  }

  #accepts({ phase, remainder, counted, broken }: State): boolean {
    if (phase === "start" || phase === "sign" || phase === "point") return false;
    let scaled = remainder;
    for (let i = counted; i < this.#places; i++) scaled = (scaled * 10) % this.#divisor;
    return (!broken && scaled === 0) === this.#holds;
  }
}
