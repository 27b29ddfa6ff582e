import { defineCheck } from "../../check.ts";
import { DRAW_WORDS, type Draw, writeDraw } from "../sample.ts";
import { CHILDREN_WORDS, NO_ROW, verify } from "./verify.ts";
import { type Thresholds, verifiedToken } from "./verify_reference.ts";

interface Shape extends Thresholds {
  /** Rows that have drafts behind them, or none: 0 to 3. Behind these stand the rows of the drafts. */
  readonly heads: number;
  readonly vocabulary: number;
  readonly padding: number;
  /** Logits are multiples of this, so that many tie; 0: any number. */
  readonly step: number;
  /** "least": the best token has all but one unit of weight, which is the only draft's. */
  readonly kind: "mixed" | "special" | "ties" | "least";
}

const NO_FILTER = { topP: 1, topK: Number.POSITIVE_INFINITY };
const MIXED: readonly Omit<Draw, "seed" | "position">[] = [
  { temperature: 1, ...NO_FILTER },
  { temperature: 2, topP: 0.8, topK: 40 },
  { temperature: 0, ...NO_FILTER },
  { temperature: 3, topP: 1, topK: 5 },
  { temperature: 2.5, ...NO_FILTER, minP: 0.2 },
  { temperature: 4, topP: 0.9, topK: 30, minP: 0.02 },
];
const KINDS: Readonly<Record<Shape["kind"], typeof MIXED>> = {
  mixed: MIXED,
  special: [MIXED[0]!, MIXED[2]!, MIXED[3]!],
  ties: [{ temperature: 1, topP: 1, topK: 30 }],
  least: [MIXED[0]!],
};
const ROW_WORDS = 4;

const draftCount = ({ kind }: Shape, head: number) => (kind === "least" ? 1 : head % 4);
const headsOf = ({ heads }: Shape) => Array.from({ length: heads }, (_, head) => head);
const rowCount = (shape: Shape) =>
  headsOf(shape).reduce((sum, head) => sum + 1 + draftCount(shape, head), 0);

/** The rows of logits that each head's drafts have: the last head's come first. */
function childRows(shape: Shape): readonly (readonly number[])[] {
  let end = rowCount(shape);
  return headsOf(shape).map((head) => {
    end -= draftCount(shape, head);
    const own = Array.from({ length: draftCount(shape, head) }, (_, i) => end + i);
    return head % 3 === 0 ? own.reverse() : own;
  });
}

/** Rows of the step stand in the reverse order of their logits, with one in between. */
const stepRow = (rows: number, i: number) => 2 * (rows - 1 - i) + 1;

/** Row `r`'s draw; the same position in another row never has the same seed. */
function drawOf({ kind }: Shape, r: number): Draw {
  const rules = KINDS[kind];
  return { ...rules[(r >> 2) % rules.length]!, seed: 0x9e370000 + r * 7919, position: r + 3 };
}

function rowOf({ vocabulary, padding, step, kind }: Shape, random: () => number): number[] {
  return Array.from({ length: vocabulary + padding }, (_, t) => {
    if (t >= vocabulary) return 50; // not part of the row
    if (kind === "ties") return t < vocabulary - 5 ? 0 : 1;
    if (kind === "least") return t === 5 ? 0 : t === 2 ? Math.log(2 ** -31) : -200;
    if (kind === "special" && random() < 0.4) return random() < 0.5 ? Number.NaN : -Infinity;
    // Steep enough that some tokens are likely, whatever the size of the vocabulary.
    const value = 4 * Math.log(random() + 1e-9) * -1 - 5;
    return step > 0 ? Math.round(value / step) * step : value;
  });
}

/** Likely tokens, others, and sometimes one that is no token. */
function draftsOf(shape: Shape, logits: ArrayLike<number>, head: number, random: () => number) {
  const { vocabulary, kind } = shape;
  if (kind === "least") return [2];
  const order = Array.from({ length: vocabulary }, (_, t) => t);
  order.sort((a, b) => (logits[b]! || -1e9) - (logits[a]! || -1e9) || a - b);
  const likely = kind === "ties" ? 40 : 9;
  const drafts = new Set<number>();
  while (drafts.size < draftCount(shape, head)) {
    const which = random();
    if (which < 0.04) drafts.add(vocabulary);
    else if (which < 0.3) drafts.add(Math.floor(random() * vocabulary));
    else drafts.add(order[Math.floor(random() ** 2 * Math.min(likely, vocabulary))]!);
  }
  return [...drafts];
}

const MIXED_SHAPE = { heads: 120, vocabulary: 150, padding: 2, step: 0.25, kind: "mixed" } as const;
const EXACT: Thresholds = { single: 1, acc: 1 };

export default defineCheck<Shape>({
  name: "sampling/verify",
  cases: [
    { ...MIXED_SHAPE, single: 1, acc: 0.6 },
    { ...MIXED_SHAPE, single: 0.2, acc: 0.6 },
    { ...MIXED_SHAPE, single: 0, acc: 1 },
    // Drafts of NaN and -inf, which no threshold accepts.
    { heads: 48, vocabulary: 9, padding: 3, step: 0, kind: "special", single: 0, acc: 0 },
    // Most of what is kept ties, over several runs; drafts are kept ties and others.
    { heads: 64, vocabulary: 2000, padding: 0, step: 0, kind: "ties", single: 1, acc: 0.02 },
    { heads: 16, vocabulary: 2000, padding: 0, step: 100, kind: "mixed", ...EXACT }, // all the same
    // 1e-9 is 4 of 2^32 parts to the kernel: none of the coins lies between.
    { heads: 20, vocabulary: 8, padding: 0, step: 0, kind: "least", single: 1, acc: 0 },
    { ...MIXED_SHAPE, heads: 240, single: 0.04, acc: 1 },
    { ...MIXED_SHAPE, ...EXACT },
    { heads: 4, vocabulary: 129280, padding: 0, step: 0, kind: "mixed", ...EXACT }, // 671B model
  ],
  tunings: [{}, { workgroupSize: 256 }],
  exactAcrossTunings: true,
  tolerance: 0,
  bytes: (shape) => 7 * rowCount(shape) * shape.vocabulary * 4,
  flops: () => 0,
  mutants: [
    {
      name: "a share is not added up",
      replace: "share = add64(share, weight)",
      with: "share = weight",
    },
    { name: "no coin accepts", replace: "less64(coin, share) ||", with: "false ||" },
    { name: "every draft is accepted", replace: "less64(coin, share) ||", with: "true ||" },
    { name: "acc is ignored", replace: "params.acc < 1.0", with: "false" },
    { name: "single is ignored", replace: "!less64(weight, enough)", with: "false", case: 1 },
    {
      name: "single is compared with the sum",
      replace: "!less64(weight, enough)",
      with: "!less64(share, enough)",
      case: 7,
    },
    {
      name: "single is a part of 1",
      replace: "enough = scale64(mass,",
      with: "enough = scale64(vec2u(0u, 1u),",
      case: 1,
    },
    {
      name: "single of 0 is neutral",
      replace: "params.single < 1.0",
      with: "params.single > 0.0 && params.single < 1.0",
      case: 2,
    },
    {
      name: "forbidden drafts are accepted",
      replace: "&& may_come(row, draft)",
      with: "",
      case: 3,
    },
    {
      name: "drafts that are no tokens are accepted",
      replace: "token < params.vocabulary &&",
      with: "true &&",
      case: 2,
    },
    {
      name: "drafts that are no tokens weigh",
      replace: "token >= params.vocabulary",
      with: "false",
    },
    { name: "the least divisor is 0", replace: "LEAST_ACC)", with: "0u)", case: 6 },
    {
      name: "coins lie below all shares",
      replace: "add64(share, scale64(sub64(mass, share)",
      with: "add64(vec2u(0u), scale64(sub64(mass, share)",
    },
    {
      name: "coins lie among shares",
      replace: "sub64(mass, share), number)",
      with: "mass, number)",
    },
    {
      name: "coins lie at the end",
      replace: "vec2u(weight, 0u), number)",
      with: "vec2u(weight, 0u), 0xffffffffu)",
    },
    {
      name: "coins lie below a drawn draft",
      replace: "if draft_of(child) == drawn {",
      with: "if draft_of(child) == drawn { share = vec2u(0u);",
      case: 8,
    },
    {
      name: "coins do not know what is drawn",
      replace: "if draft_of(child) == drawn {",
      with: "if false {",
    },
    {
      name: "the coin is the token's number",
      replace: "position, COIN_STREAM)",
      with: "position, TOKEN_STREAM)",
    },
    {
      name: "the token is the coin's number",
      replace: "position, TOKEN_STREAM)",
      with: "position, COIN_STREAM)",
    },
    {
      name: "the coin's position is ignored",
      replace: "draw.position, COIN",
      with: "0u, COIN",
    },
    {
      name: "the coin's seed is ignored",
      replace: "draw.seed, draw.position, COIN",
      with: "0u, draw.position, COIN",
    },
    {
      name: "rows are those of the logits",
      replace: "rows[logit_rows[child]]",
      with: "rows[child]",
    },
    {
      name: "a row is its own child",
      replace: "children[logit_row].first; child",
      with: "logit_row; child",
    },
    {
      name: "only first children",
      replace: "child = children[child].next",
      with: "child = NO_ROW",
    },
    { name: "a greedy row has coins", replace: "|| draw.temperature <= 0.0", with: "", case: 3 },
    {
      name: "ties are not kept",
      replace: "ties_before < run_ties[token / kept.run]",
      with: "false",
      case: 4,
    },
    {
      name: "all ties are kept",
      replace: "ties_before < run_ties[token / kept.run]",
      with: "true",
      case: 4,
    },
    {
      name: "ties are counted from the row's start",
      replace: "token - token % kept.run",
      with: "0u",
      case: 4,
      tuning: 1,
    },
    {
      name: "drafts that are cut have a share",
      replace: "own_key > kept.above",
      with: "true",
      case: 7,
    },
    {
      name: "rows are vocabulary apart",
      replace: "group.x * params.stride",
      with: "group.x * params.vocabulary",
    },
    {
      name: "drafts are looked for vocabulary apart",
      replace: "let row = logit_row * params.stride;\n  var coin",
      with: "let row = logit_row * params.vocabulary;\n  var coin",
    },
    { name: "the draws are those of row 0", replace: "draws[group.x]", with: "draws[0]" },
  ],

  inputs(shape, random) {
    const count = rowCount(shape);
    const { vocabulary, padding } = shape;
    const logits = Float32Array.from(
      Array.from({ length: count }, () => rowOf(shape, random)).flat(),
    );
    const draws = new DataView(new ArrayBuffer(count * DRAW_WORDS * 4));
    for (let r = 0; r < count; r++) writeDraw(draws, r, drawOf(shape, r));
    const children = new Uint32Array(count * CHILDREN_WORDS).fill(NO_ROW);
    const rows = Uint32Array.from({ length: 2 * count * ROW_WORDS }, () => random() * vocabulary);
    for (const [head, own] of childRows(shape).entries()) {
      const row = logits.subarray(head * (vocabulary + padding));
      const drafts = draftsOf(shape, row, head, random);
      children[head * CHILDREN_WORDS] = own[0] ?? NO_ROW;
      own.forEach((child, i) => {
        children[child * CHILDREN_WORDS + 1] = own[i + 1] ?? NO_ROW;
        rows[stepRow(count, child) * ROW_WORDS] = drafts[i]!;
      });
    }
    return {
      logits,
      draws: new Uint32Array(draws.buffer),
      children,
      logit_rows: Uint32Array.from({ length: count }, (_, i) => stepRow(count, i)),
      rows,
    };
  },

  reference(shape, { logits, rows }) {
    const count = rowCount(shape);
    const { vocabulary, padding } = shape;
    const children = childRows(shape);
    const ids = Uint32Array.from({ length: count }, (_, r) => {
      const first = r * (vocabulary + padding);
      const own = children[r] ?? [];
      const drafts = own.map((child) => rows![stepRow(count, child) * ROW_WORDS]!);
      const row = logits!.subarray(first, first + vocabulary);
      return verifiedToken(row, drawOf(shape, r), { drafts, thresholds: shape });
    });
    return { ids };
  },

  bind(recorder, shape, tensors, tuning) {
    const { vocabulary, padding, single, acc } = shape;
    const launch = verify(recorder, {
      logits: tensors.logits!,
      draws: tensors.draws!,
      children: tensors.children!,
      logitRows: tensors.logit_rows!,
      rows: tensors.rows!,
      ids: tensors.ids!,
      vocabulary,
      stride: vocabulary + padding,
      single,
      acc,
      ...tuning,
    });
    return () => launch(rowCount(shape));
  },
});
