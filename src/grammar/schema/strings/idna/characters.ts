/**
 * The characters of internationalized host names, by what the rules of their places ask of them.
 *
 * Which characters are valid (PVALID) follows from properties of Unicode by RFC 5892, section 2, and
 * is the same in each version for the characters it has: these are those of Unicode 14. Here they are
 * sorted by what else is asked: their direction (RFC 5893), how they join (RFC 5892, appendix A.1),
 * and what keeps a text in normalization form C (RFC 5891, section 5.3): canonical combining classes,
 * and what marks compose with. All of it is from the Unicode Character Database 14.0.
 *
 * @module
 */

import {
  type CodePointRange,
  type CodePoints,
  codePoints,
} from "../../../automaton/code_points.ts";

/** Letters and digits that are not ASCII and not written from right to left. */
const LETTERS =
  "67+n 1+7 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 3 1+1 1 1 1 3 1 1 1 2 1 1 1 1 " +
  "1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 2 1 1 1 2 1 2 3+1 4 2 3+2 2 2 1 1 2 1+1 1 2 3 1 2+2 " +
  "1+6 a 1 1 1 1 1 1 1+1 1 1 1 1 1 1 1 1 1+1 4 3 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 " +
  "1 1 1 1 1 1 1 1+6 2 2+1 1 4 1 1 1 1+2o 9+8 4+b q 1 3m 1 3 3+2 i r+y 8 1 1 1 1 1 1 1 1 1 " +
  "1 1 1 3 4 2+1 1f+1b 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 9 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 " +
  "1 1 1 1 1 1 1 1 1 1 2 1 1 1 1 1 1+1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 " +
  "1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 15 6+12 1 or+1h 3 i f+1 4+9 1+f 4+7 2+1 2+l " +
  "1+6 1 3+3 3 g h+1 4+b a 8+5 4+1 2+l 1+6 1 2 2+1 y 9+9 2+2 g+8 1+2 1+l 1+6 1+1 1+4 3 i " +
  "f+1 4+9 9 b+7 2+1 2+l 1+6 1+1 1+4 3 x+2 4+9 1 h 1+5 3+2 1+3 3+1 1 1+1 3+1 3+2 3+b m l+9 " +
  "l+7 1+2 1+m 1+f 3 q+2 2 2+1 4+9 g 4+7 1+2 1+m 1+9 1+4 3 v+1 1+1 4+9 1+1 h+8 1+2 1+14 2 g " +
  "5+2 8+2 4+9 a+5 5+h 3+n 1+8 1 2+6 v+9 h+1b 1 d+6 9+9 13+1 1 1+4 1+n 1 1+9 1 a 2+4 1 9+9 " +
  "4+1 w a k+9 m+2 1+3 1+3 1+3 1+3 1+3 1+b 1+2 r+4 37+16 k+a 6+5 4+3 3 3+1 7+2 4+c c 1+9 " +
  "1i+16 2+2 74+20 1+3 2+6 1 1+3 2+14 1+3 2+w 1+3 2+6 1 1+3 2+e 1+1k 1+3 2+1u 11+f g+2d " +
  "b+h7 2+g 1+p 5+22 6+7 7+h d+i e+h e+c 1+2 f+1f z 4 3+9 12+9 6+2g 7+4 2+x 1 5+1x a+u " +
  "13+13 2+4 b+17 4+p 6+9 12+m 9+1g 17+9 6+9 d 2l+1a h+7 3+9 15+t d+1j q+z s+9 3+1c 2z+3 " +
  "1+5 1+1 3 5+17 3 b i s+c 1+x 2u 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 " +
  "1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 " +
  "1 1+4 2+1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 " +
  "1 1 1 1 1 1 1 1 1 1+8 8+5 a+7 8+7 8+5 a+7 8+7 8 1 1 1 1 1 1 1f+1 4 f 9+2 3+1 8+2 1+3 e " +
  "9j 1h 23v+1b 1 3+1 1 1 1 4 1+1 1+5 5 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 " +
  "1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1+1 7 1 4 c+11 1 5 2+1j o+m 9+6 1+6 1+6 1+6 " +
  "1+6 1+6 1+6 1+6 28 d1+2 1g 4+2d 6+1 2+2h 1+2 6+16 34+v 1c+f e8+533 1s+h3g 1v+19 2+7g 3+r " +
  "l 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1+1 g 1 1 1 1 1 1 1 1 1 1 1 1 1 1 4+1x 1d+8 " +
  "3 1 1 1 1 1 1+2 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1+7 1 1 2 " +
  "1 1 1 1+1 3 1+1 1 1+2 1 1 1 1 1 1 1 1 1 1 5 5 1 1 1 1 1 1 1 4 1 6 1 1 1 1 s+1 2+7 1+2 " +
  "1+3 1+m t+1f e+1d s+9 o+5 3 1+1 1+11 a+m 1p+1a s+a 6+4 1+o 1+14 n+2 1+7 4+9 6+m 3 3+1d 1 " +
  "3+1 2+4 2 1 o+2 2+a 7+2 c+5 2+5 2+5 9+6 1+6 1+16 5+8 2f+y d+9 6+8mb 6sq+1 1 1+1 a 1 1+1 " +
  "2+2 15i+b 1+p 1+i 1+1 1+e 2+d y+3e at+s 3+1c 1b+v d+j 1+7 6+11 a+t 2+z 4+7 2g+39 2+9 " +
  "1a+z 4+13 8+1f 1f+a 1+e 1+6 1+1 1v+8m 9+l a+7 o 1oi+1g 1a+9 1+1 2 d+18 w+o 7+9 9+z f+9 4 " +
  "2 8+y 3 c+1b e+3 b+a 1 z+h 1+o 2c+6 1 1+3 1+e 1+9 7+1a h+9 b+7 2+1 2+l 1+6 1+1 1+4 3 i " +
  "c+4 4e+1g i+3 5+9 5+2 u+1b k+1 1 8+9 4m+1a 15+3 10+1b k b+9 12+16 d 7+9 1i+q l+9 6+6 " +
  "55+17 44+15 l+7 2 2+7 1+1 1+n f 1 e+9 1y+7 2+12 g 1 s a+13 7 l b+19 j i+20 7b+8 1+10 h " +
  "f+9 o+t 34+6 1+1 1+11 l 9+9 6+5 1+1 1+v e 7+9 8m+i 59 27+pl 6e+5f 218+2o f+tq 34h+g6 " +
  "6nt+fs 7+u 1+9 6+26 1+9 6+t i+1b g+3 c+9 9+k 5+i k0+v 3k+22 5 1u+c 1s+1 1 s+4qf 8+yd " +
  "16+8 6w7+3 1+6 1+1 1+82 19+2 h+3 8+az 1s4+2y 5+c 3+8 7+9 6sm+u dd+18 a+6 2+9 4 8x+t i+17 " +
  "4+9 yu+6 1+3 1+1 1+e 4qp+wyn w+37c 7+65 2+4g1 e+5rk 3z3+3t6";

/** Letters and marks that a mark behind them may compose with, be it once they are decomposed. */
const COMPOSING =
  "68+f 1+5 1+5 1 1 1 1 1 1 1 1 1 3 1 1 1 1 1 1 1 1 1 3 1 1 1 5 1 2 1 1 5 1 1 4 1 1 3 1 1 1 " +
  "1 1 1 1 1 3 1 1 1 1 1 1 1 2 1 1 y e t 1 1 1 1 1 1 1 2 1 1 3 1 1 1 1+1 4 3 1 1 1 1 1 1 1 " +
  "1 1 1 1 1 1 1 1 1 1 3 7 1 1 1 1 1 1 2m 71 r+5 3 1 1 5 1 3 3+5 2p 2 1+5 3 4 3 3 1 2+1 1 " +
  "2+1 4+2 m 1 22 e 1 3 1 1 1 1 3 1 1 1 1 1 1 1 1 1 3 tq+1 6+1 1+1 42 3+1 ai+1 2+1 1x 1 " +
  "1d+1 2+2 3d 1 3a+1 5+2 1+1 3e+1 2+2 3w+1 1+2 g6+1 25a+9 2+1 13+9 jh 1 1 1 1 1 1 1 1 1 1 " +
  "1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 " +
  "1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1+4 7 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 " +
  "1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 6+7 8+5 a+7 8+7 8+5 a+7 8+7 8 1 1 1 1 1 1 " +
  "1f+1 4 f 9+2 3+1 8+2 1+3 e 37z 4+n 1+5 5+e m 8+1 7 4+n 1+5 5+e h+3 1 2+3 2+1 1862+3 8 5 " +
  "3m+1 1+1 es 3+1 a4 1+1 1 6x+3 op 2";

/** Marks of combining class 0, vowel signs mostly. */
const SPACING_MARKS =
  "1ie+a 9b+3 1i+1 2+e 1+1 5+2 a+1 t+2 1n+5 2+1 2+1 l+1 t+2 1m+4 4+1 2+1 4 u+1 3 b+2 1m+7 " +
  "1+2 1+1 l+1 m+5 1+2 1n+5 2+1 2+1 8 c+1 u 1o+3 3+2 1+2 1f+4 1l+6 1+2 1+2 l+1 t+2 1m+3 1+1 " +
  "1+2 1+2 l+1 s+3 1n+5 1+2 1+2 l+1 t+2 24+4 1 1+6 j+1 1p 2+3 f 4+2 2q 2+3 3+1 f+1 34+1 " +
  "1q+1 d+5 1+3 1+3 1+3 1+3 1+3 1+b 1+2 32+2 1+7 1 2+3 n+3 4+2 1+2 2+6 3+3 d+a 2 a+3 19w+1 " +
  "u+1 u+1 u+1 1u+r 1 4x+1 49+b 4+8 68+2 1l+9 2+j 3v+4 1d+d 1o+2 u+8 2+1 1l+a 1e+i 4q l rgq " +
  "8 n+4 2g+1 1e+f 1 1l 12+4 s+b 19+3 1c+b 11 1v+d c 8+1 19+2 31+4 5 6l+7 1 il0+2 1+1 5 1 " +
  "169+2 1h+d 19+1 b+2 19+8 9 2t+a i+1 1l+2 1c+c 9 1+1 1+1 2k+8 2 6 4g+9 n+3 1n+5 2+1 2+1 " +
  "l+1 5t+c 1+2 2z+8 1+1 1+3 6m+5 2+6 t+1 2a+e 1 2y+a 2v+d 75+c 6w+4 1+1 2+1 3 1 3y+6 2+5 4 " +
  "s+9 14 1+4 1+3 i+a 1a+e ba+7 1+6 2b+l 1+d 3e+5 3 1+1 1+2 1 3 1u+4 1+1 1+3 9o+3 fvc 1+1i " +
  "7+3 29 f5k 3mq+19 2+m 249+1i 4+1d 8 e m+4 1+e";

/** Those of them that compose with some character before them. */
const LATE_SPACING_MARKS = "1xa o 9y n+1 2u o 6i i+1 2v o 3b f ge 26e 1ckx eu o 9k 9 2 6p ow";

/** Letters of right-to-left scripts (bidirectional classes R and AL). */
const RIGHT_TO_LEFT =
  "15c+q 4+3 19+v 1+9 z+1 1+3 4+2i 1 f+1 7+1 a+5 g 1+t t+2g b e+16 9+1 a+l 4 9 3 n+o 7+a " +
  "5+n 1+5 h+15 1cix 1vw+5 2 1+17 1+1 3 2+m a+m 9+u 1t+i 1+1 a+l a+p 1y+1j 6+1 1s f+3 1+2 " +
  "1+s 16+s 3+s z+7 1+r r+1h a+l a+i d+h 32+20 3b+1e d+z 9o+15 6+1 26+s a 8+l 16+h 1a+k r+m " +
  "16o9+5g 2l+x 7 4+9";

/** Those of them that join both neighbours. */
const DUAL_JOINING =
  "17k 5 1 1+4 4+c 1+6 1+1 z+1 9+e i+11 1+1 9 1 1+1 14+2 2 i+2 5+3 1+8 1 1 1+1 v+a 3+e 2+3 " +
  "1 2+2 2+5 22+w 2e+4 2 1+9 1 a 1+3 2 t 2+4 i+9 5+1 2+5 1+e 1eyf+4 e+3 1+4 1+2 4f 1 3+2 " +
  "1+1 1 2 a8+w 1 ek+2 1+g 17+3 2+b 1a 1+1 4 2+1 1+1 1 2 16xp+x";

/** Those of them that join the one before. */
const RIGHT_JOINING =
  "17m+3 1 1 5+3 l 14+2 k+h 12 2+8 1 1 2+1 1 o+1 w 4+4 4 9 1 1 2 t b+2 f+1 4 1+1 3+1 5i 5+1 " +
  "1 a 1+2 e 1+1 5+i b r+2 1 2+1 6 1eyz 1 1+1 3+4 a 3 2 4c 1+2 3 2 1+1 1 b4 eo 1s+1 1q+2 " +
  "2+1 2 4+1";

/** Marks by their combining class, which is not 0. */
const MARKS: Readonly<Record<number, string>> = {
  1: "ms+3 524 d+6 1avk j3q+4 g4p",
  6: "20og+1",
  7: "1x8 3j 3j 3j 73 3j oq 264 4x 28 ry3 khr 2e 2z 4y 29+1 7d 3g 70 6u aq 7c se 14av",
  9:
    "1u5 3j 3j 3j 3j 3j 3j 3j 31+1 g 6k 3j 5l 50+1 1cp+1 u 4d i5 6b 2t+1 1y+1 3gr o7a 11 " +
    "47 3y 30 8l 6u imp 16u 15 e 1l 3d+1 3v 38 50 2q 6s 3j 70 3j 3a 38 7h 77+1 4h 2b i 29 " +
    "bp 78+1 29",
  10: "14g",
  11: "14h",
  12: "14i",
  13: "14j",
  14: "14k",
  15: "14l",
  16: "14m",
  17: "14n",
  18: "14o e",
  19: "14p+1",
  20: "14r",
  21: "14s",
  22: "14t",
  23: "14v",
  24: "14x",
  25: "14y",
  26: "1dlq",
  27: "18r is",
  28: "18s is",
  29: "18t is",
  30: "17c 1h",
  31: "17d 1h",
  32: "17e 1h",
  33: "18x",
  34: "18y",
  35: "19s",
  36: "1e9",
  84: "2fp",
  103: "2t4+1",
  107: "2tk+3",
  118: "2wo+1",
  122: "2x4+3",
  129: "31t",
  130: "31u 7+3 2",
  132: "31w",
  202: "m9+1 59p",
  214: "5vy",
  216: "309",
  218: "5x6 3lb",
  220:
    "ly+3 2+4 8+3 2 2+1 5+3 a+2 3+1 4+3 2+1 fq 4 4 6+5 2 q 40 5 2 3n 6 2 1v 2 2+2 1+1 1 3 " +
    "1 1 1 4p a 2j+2 1p+2 1f+4 f 2 2 3+2 6 2+1 2f 151+1 r 1 3y 5i 1pp 64 2u 1h+5 2 1+1 " +
    "2+1 5 4h a0+4 2+3 d 5w 7 4 15 3 1 rhn+2 au ghe+6 r3 6a 1f0 18 4r v3+1 3 1+3 1e 1 " +
    "16x6+6",
  222: "13u i 3uz 4j7",
  228: "14e 3qy 11p+1 3le",
  230:
    "lh 7+1 1 1 16+2 6 3+2 3+2 4 3 7+c 7n+4 7e+3 1+2 2+5 6+1 1+1 2 k 23+7 1r+4 1+1 3b+6 " +
    "2+3 1 2+1 2+1 1v 1+1 1+1 3 2 1+2 1 1 1 1+1 4g+6 1 y+3 1+8 1+2 1+4 2y 3+3 16+4 5+d " +
    "2+1 1+1 1+2 6+2 1+1 2+4 29 1+1 4p 137+1 2+1 r9+2 vx 9o 64 2l+7 1f+4 6+1 4+1 2+4 1+3 " +
    "4c 1+6 9o+2 7+1 4 j 3+1 5i+1 1+6 1+1 4+10 5 2 2y8+2 6m+v nsf 4+9 w+1 28+1 dq+h ce " +
    "1+1 3+1 5+1 1 ggu+6 7+1 11i+4 1as 14 4s fy+3 ar+1 4b+2 1 1h 1 aj+2 gz+6 3+4 6h h5d+6 " +
    "n2h+6 1+g 2+6 1+1 1+4 79+6 af 1p+3 190+5",
  232: "lx 4 1p 599 3lh",
  233: "nw 2 2 595",
  234: "nx+1 1+1 57v",
};

/** Those that compose with some character before them. */
const LATE_MARKS: Readonly<Record<number, string>> = {
  1: "mw",
  7: "1to 1g1p",
  8: "9ll+1",
  9: "2q2",
  91: "2fq",
  202: "mf+1",
  216: "m3",
  220: "mb+3 6+1 1+1 mb",
  230: "lc+4 1+6 2 1 1+1 19 ls+1",
};

export interface IdnaCharacters {
  readonly letters: CodePoints;
  readonly composing: CodePoints;
  readonly spacingMarks: CodePoints;
  readonly lateSpacingMarks: CodePoints;
  readonly rightToLeft: CodePoints;
  readonly dualJoining: CodePoints;
  readonly rightJoining: CodePoints;
  /** By combining class. */
  readonly marks: ReadonlyMap<number, CodePoints>;
  readonly lateMarks: ReadonlyMap<number, CodePoints>;
}

let known: IdnaCharacters | undefined;

/** Read when a schema first asks for them. */
export function idnaCharacters(): IdnaCharacters {
  known ??= {
    letters: unpack(LETTERS),
    composing: unpack(COMPOSING),
    spacingMarks: unpack(SPACING_MARKS),
    lateSpacingMarks: unpack(LATE_SPACING_MARKS),
    rightToLeft: unpack(RIGHT_TO_LEFT),
    dualJoining: unpack(DUAL_JOINING),
    rightJoining: unpack(RIGHT_JOINING),
    marks: unpackAll(MARKS),
    lateMarks: unpackAll(LATE_MARKS),
  };
  return known;
}

function unpackAll(packed: Readonly<Record<number, string>>): ReadonlyMap<number, CodePoints> {
  return new Map(Object.entries(packed).map(([number, text]) => [Number(number), unpack(text)]));
}

/** Of each range the distance from the one before and, where it has more, its other characters: base 36. */
function unpack(packed: string): CodePoints {
  let at = 0;
  const ranges = packed.split(" ").map((range): CodePointRange => {
    const [gap, more = "0"] = range.split("+");
    const first = at + Number.parseInt(gap!, 36);
    const last = first + Number.parseInt(more, 36);
    at = last + 1;
    return [first, last];
  });
  return codePoints(ranges);
}
