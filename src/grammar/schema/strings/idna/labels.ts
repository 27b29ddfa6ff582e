/**
 * Labels of internationalized host names (U-labels, RFC 5891), as automata over code points.
 *
 * Each automaton follows a label letter by letter: marks in the order of normalization form C, what
 * the rules for characters in context ask of their neighbours (RFC 5892, appendix A), and from right
 * to left the Bidi rule (RFC 5893, section 2). `shapeOf` says the rest: hyphens, and how many
 * characters there are.
 *
 * What is written is a part of what is valid: a letter has up to two marks that order, a mark that
 * composes with others stands behind letters that compose with none, and joiners stand behind a
 * virama or between joining letters of right-to-left scripts.
 *
 * @module
 */

import {
  ANY_CODE_POINT,
  type CodePoints,
  intersectSets,
  subtractSet,
  unite,
} from "../../../automaton/code_points.ts";
import { AutomatonBuilder } from "../../../automaton/regular.ts";
import type { CodePointAutomaton } from "../../../expression.ts";
import { type IdnaCharacters, idnaCharacters } from "./characters.ts";

const ASCII_LETTERS: CodePoints = [[0x61, 0x7a]];
const ASCII_DIGITS: CodePoints = [[0x30, 0x39]];
export const ASCII: CodePoints = [[0, 0x7f]];
const HYPHEN: CodePoints = [[0x2d, 0x2d]];
const L: CodePoints = [[0x6c, 0x6c]];
const MIDDLE_DOT: CodePoints = [[0xb7, 0xb7]];
const EXTENDED_ARABIC_DIGITS: CodePoints = [[0x6f0, 0x6f9]];
const GREEK_KERAIA: CodePoints = [[0x375, 0x375]];
const HEBREW_GERESH_OR_GERSHAYIM: CodePoints = [[0x5f3, 0x5f4]];
const KATAKANA_MIDDLE_DOT: CodePoints = [[0x30fb, 0x30fb]];
const JOINERS: CodePoints = [[0x200c, 0x200d]];
const NON_JOINER: CodePoints = [[0x200c, 0x200c]];
/** Where letters of the script are; others in between are capital or of no name. */
const GREEK: CodePoints = [
  [0x370, 0x3e1],
  [0x3f0, 0x3ff],
  [0x1f00, 0x1fff],
];
const HEBREW: CodePoints = [[0x5d0, 0x5f2]];
/** Hiragana, Katakana and Han below U+A000. */
const JAPANESE: CodePoints = [
  [0x3005, 0x3005],
  [0x3007, 0x3007],
  [0x3041, 0x3096],
  [0x309d, 0x309e],
  [0x30a1, 0x30fa],
  [0x30fd, 0x30fe],
  [0x3400, 0x9fff],
];
const PROLONGED_SOUND_MARK: CodePoints = [[0x30fc, 0x30fc]];
/** Of scripts whose letters take marks in words: letters go on behind marks with these. */
const MARKED_SCRIPTS: CodePoints = [
  [0x900, 0x1cff],
  [0xa800, 0xabff],
  [0x11000, 0x11fff],
];
/** Of scripts whose letters take marks that compose with others. */
const LATE_SCRIPTS: CodePoints = [
  [0x180, 0x2ff],
  [0x900, 0x1cff],
  [0x3041, 0x30ff],
  [0x11000, 0x11fff],
];
const RIGHT_TO_LEFT_BLOCKS: CodePoints = [
  [0x590, 0x8ff],
  [0x10800, 0x10fff],
  [0x1e800, 0x1efff],
];
/** Digits of bidirectional class EN and AN, which one label does not mix. */
const EUROPEAN_DIGITS: CodePoints = [...ASCII_DIGITS, ...EXTENDED_ARABIC_DIGITS];
const ARABIC_DIGITS: CodePoints = [
  [0x660, 0x669],
  [0x10d30, 0x10d39],
];
const VIRAMA = 9;

/** Combining classes of which a mark of a later one follows one of an earlier one: words have both. */
const MARK_ORDERS: readonly (readonly number[])[] = [
  [7, VIRAMA],
  [103, 107],
  [118, 122],
  [220, 230],
];
/** The same of points of Hebrew and Arabic. */
const POINT_ORDERS: readonly (readonly number[])[] = [
  [10, 11, 12, 13, 14, 15, 16, 17, 18, 19, 20, 21, 22, 23, 24, 25],
  [27, 28, 29, 30, 31, 32, 33, 34, 35],
];

class LabelBuilder {
  readonly #builder = new AutomatonBuilder();
  readonly #within: CodePoints;
  readonly all: IdnaCharacters = idnaCharacters();

  constructor(within: CodePoints) {
    this.#within = within;
  }

  state({ accepting = false }: { readonly accepting?: boolean } = {}): number {
    return this.#builder.add(accepting);
  }

  connect(from: number, points: CodePoints, target: number): void {
    for (const [first, last] of intersectSets(points, this.#within)) {
      this.#builder.connect(from, { first, last, target });
    }
  }

  build(): CodePointAutomaton {
    return this.#builder.build();
  }
}

/** From left to right: no letter of the label is of another direction. */
export function leftToRightLabel(within: CodePoints): CodePointAutomaton {
  const label = new LabelBuilder(within);
  const { letters, composing, spacingMarks, lateSpacingMarks, marks, lateMarks } = label.all;
  const start = label.state();
  const base = label.state({ accepting: true });
  /** Behind a letter, or sign, that composes with nothing. */
  const alone = label.state();
  const behindMarks = label.state({ accepting: true });
  const behindVirama = label.state();
  const some = unite([letters, ASCII_LETTERS, ASCII_DIGITS, EXTENDED_ARABIC_DIGITS]);
  const more = unite([intersectSets(letters, MARKED_SCRIPTS), ASCII_LETTERS, ASCII_DIGITS]);
  for (const [from, points] of [
    [start, some],
    [base, some],
    [behindMarks, more],
  ] as const) {
    label.connect(from, points, base);
    label.connect(from, subtractSet(intersectSets(points, LATE_SCRIPTS), composing), alone);
  }
  for (const from of [base, behindMarks]) {
    label.connect(from, HYPHEN, base);
    label.connect(from, spacingMarks, base);
    label.connect(from, subtractSet(spacingMarks, composing), alone);
  }
  for (const from of [alone, behindMarks]) label.connect(from, lateSpacingMarks, base);
  addMarks(label, base, { behindMarks, orders: MARK_ORDERS, marks, behindVirama });
  for (const [kind, points] of lateMarks) {
    label.connect(alone, points, behindMarks);
    if (kind === VIRAMA) label.connect(alone, points, behindVirama);
  }
  label.connect(behindVirama, JOINERS, behindMarks);
  addMiddleDot(label, [start, base, behindMarks], base);
  addKeraia(label, [start, base, behindMarks], base);
  return label.build();
}

interface MarksOptions {
  readonly behindMarks: number;
  readonly behindVirama?: number;
  readonly orders: readonly (readonly number[])[];
  readonly marks: ReadonlyMap<number, CodePoints>;
}

/** Marks that compose with nothing, one alone or in order. */
function addMarks(
  label: LabelBuilder,
  base: number,
  { behindMarks, behindVirama, orders, marks }: MarksOptions,
): void {
  const add = (from: number, kind: number): void => {
    label.connect(from, marks.get(kind)!, behindMarks);
    if (kind === VIRAMA && behindVirama !== undefined) {
      label.connect(from, marks.get(kind)!, behindVirama);
    }
  };
  for (const kind of marks.keys()) add(base, kind);
  for (const order of orders) {
    const states = order.map(() => label.state());
    order.forEach((kind, i) => {
      label.connect(base, marks.get(kind)!, states[i]!);
      for (let j = i + 1; j < order.length; j++) {
        add(states[i]!, order[j]!);
        label.connect(states[i]!, marks.get(order[j]!)!, states[j]!);
      }
    });
  }
}

/** Between two l (appendix A.3). */
function addMiddleDot(label: LabelBuilder, from: readonly number[], base: number): void {
  const behindL = label.state();
  const behindDot = label.state();
  for (const state of from) label.connect(state, L, behindL);
  label.connect(behindL, MIDDLE_DOT, behindDot);
  label.connect(behindDot, L, behindL);
  label.connect(behindDot, L, base);
}

/** Before a Greek letter (appendix A.4). */
function addKeraia(label: LabelBuilder, from: readonly number[], base: number): void {
  const behindKeraia = label.state();
  for (const state of from) label.connect(state, GREEK_KERAIA, behindKeraia);
  label.connect(behindKeraia, intersectSets(label.all.letters, GREEK), base);
}

/** Of Hiragana, Katakana and Han, which let a Katakana middle dot stand in the label (appendix A.7). */
export function japaneseLabel(): CodePointAutomaton {
  const label = new LabelBuilder(ANY_CODE_POINT);
  const { letters } = label.all;
  const before = label.state();
  const behind = label.state({ accepting: true });
  const japanese = intersectSets(letters, JAPANESE);
  const others = unite([
    ASCII_LETTERS,
    ASCII_DIGITS,
    HYPHEN,
    KATAKANA_MIDDLE_DOT,
    PROLONGED_SOUND_MARK,
  ]);
  label.connect(before, others, before);
  label.connect(before, japanese, behind);
  label.connect(behind, unite([others, japanese]), behind);
  return label.build();
}

/** What the Bidi rule lets stand in a label from right to left. */
export function rightToLeftLabel(within: CodePoints): CodePointAutomaton {
  const label = new LabelBuilder(within);
  const start = label.state();
  const kinds = [[], EUROPEAN_DIGITS, ARABIC_DIGITS].map((digits) => {
    return { digits, ...rightToLeftStates(label) };
  });
  const [plain] = kinds;
  addLetters(label, start, plain!);
  for (const kind of kinds) {
    const { digits, base, behindMarks, behindHyphen } = kind;
    for (const from of [base, behindMarks, behindHyphen]) {
      addLetters(label, from, kind);
      label.connect(from, digits, base);
      label.connect(from, HYPHEN, behindHyphen);
    }
  }
  for (const { digits, base } of kinds.slice(1)) {
    for (const from of [plain!.base, plain!.behindMarks, plain!.behindHyphen]) {
      label.connect(from, digits, base);
    }
  }
  return label.build();
}

interface RightToLeftStates {
  readonly base: number;
  readonly behindMarks: number;
  /** No mark stands there: it would be at the end behind what is no letter. */
  readonly behindHyphen: number;
  readonly behindHebrew: number;
  readonly behindJoining: number;
}

function rightToLeftStates(label: LabelBuilder): RightToLeftStates {
  const { dualJoining, rightJoining, marks } = label.all;
  const states = {
    base: label.state({ accepting: true }),
    behindMarks: label.state({ accepting: true }),
    behindHyphen: label.state(),
    behindHebrew: label.state(),
    behindJoining: label.state(),
  };
  const inBlocks = new Map(
    [...marks].map(([kind, points]) => [kind, intersectSets(points, RIGHT_TO_LEFT_BLOCKS)]),
  );
  addMarks(label, states.base, {
    behindMarks: states.behindMarks,
    orders: POINT_ORDERS,
    marks: inBlocks,
  });
  label.connect(states.behindHebrew, HEBREW_GERESH_OR_GERSHAYIM, states.base);
  label.connect(states.behindHebrew, HEBREW_GERESH_OR_GERSHAYIM, states.behindHebrew);
  const behindNonJoiner = label.state();
  const behindJoiningMark = label.state();
  for (const points of inBlocks.values()) {
    label.connect(states.behindJoining, points, behindJoiningMark);
  }
  for (const from of [states.behindJoining, behindJoiningMark]) {
    label.connect(from, NON_JOINER, behindNonJoiner);
  }
  label.connect(behindNonJoiner, unite([dualJoining, rightJoining]), states.base);
  label.connect(behindNonJoiner, dualJoining, states.behindJoining);
  return states;
}

function addLetters(label: LabelBuilder, from: number, states: RightToLeftStates): void {
  const { rightToLeft, dualJoining } = label.all;
  label.connect(from, rightToLeft, states.base);
  label.connect(from, intersectSets(rightToLeft, HEBREW), states.behindHebrew);
  label.connect(from, dualJoining, states.behindJoining);
}

export interface Shape {
  /** The most characters. Default any number. */
  readonly most?: number;
  /** The most characters that are not ASCII. Default any number. */
  readonly mostOthers?: number;
}

/** Where a label may go on: how much of it there is, where that is bounded. */
interface ShapeState {
  readonly count: number;
  readonly others: number;
  readonly isHyphen: boolean;
}

/** Labels with no hyphen first or last, nor two in a row, of at least one character. */
export function shapeOf({ most, mostOthers }: Shape): CodePointAutomaton {
  const builder = new AutomatonBuilder();
  const numbers = new Map<string, number>();
  const waiting: ShapeState[] = [];
  const number = (state: ShapeState): number => {
    const key = Object.values(state).join();
    let known = numbers.get(key);
    if (known === undefined) {
      known = builder.add(state.count > 0 && !state.isHyphen);
      numbers.set(key, known);
      waiting.push(state);
    }
    return known;
  };
  number({ count: 0, others: 0, isHyphen: true });
  for (const [from, { count, others, isHyphen }] of waiting.entries()) {
    if (count === most) continue;
    const connect = (points: CodePoints, state: Omit<ShapeState, "count">): void => {
      const target = number({ ...state, count: most === undefined ? 1 : count + 1 });
      for (const [first, last] of points) builder.connect(from, { first, last, target });
    };
    if (!isHyphen) connect(HYPHEN, { others, isHyphen: true });
    connect(subtractSet(ASCII, HYPHEN), { others, isHyphen: false });
    if (others === mostOthers) continue;
    const more = mostOthers === undefined ? 0 : others + 1;
    connect(subtractSet(ANY_CODE_POINT, ASCII), { others: more, isHyphen: false });
  }
  return builder.build();
}
