/**
 * What the sampler draws has the exact distribution: every filter and every combination of them,
 * behind penalties, masks and biases. And that is no empty claim: planted faults are noticed.
 */
import { describe, expect, test } from "vitest";
import type { PenaltyStrengths } from "../../../kernels/sampling/adjust.ts";
import { distribution, penalized } from "../../../kernels/sampling/reference.ts";
import type { RowSampling, SampledRow } from "../../../src/engine/sample/sampled_row.ts";
import { Sampler } from "../../../src/engine/sample/sampler.ts";
import { DeviceMemory } from "../../../src/gpu/memory.ts";
import { Plan } from "../../../src/gpu/plan.ts";
import { Recorder, type RecorderOptions } from "../../../src/gpu/recorder.ts";
import { EMPTY_STEP, type Step } from "../../../src/layers/batch.ts";
import { device, download, fullTest, seeded, smallestCaseOnly } from "../../support/devices/gpu.ts";
import { type ChiSquare, chiSquare, pValue, sumOf } from "../../support/reference/chi_square.ts";

const VOCABULARY = 45;
const STRIDE = 48;
/** Rows of one launch. */
const ROWS = 2048;
const LAUNCHES = fullTest ? 256 : smallestCaseOnly ? 3 : 24;
/** Those of a sampler with a fault in it. */
const FAULTY_LAUNCHES = 5;
/** Draws of the right distributions look less likely than this once in a million campaigns. */
const UNLIKELY = 1e-8;

const random = seeded(21);
/** A few likely tokens, ties among them, and a long tail. */
const LOGITS = Float32Array.from({ length: VOCABULARY }, (_, i) =>
  i % 9 === 4 ? 1.5 : Math.fround(random() * 7 - 4),
);

/** What is done to logits before tokens are drawn. */
interface Front {
  readonly name: string;
  readonly penalties?: PenaltyStrengths;
  readonly prompt: readonly number[];
  readonly generated: readonly number[];
  /** Tokens that may come; absent: all. */
  readonly allowed?: readonly number[];
  readonly biases?: readonly (readonly [token: number, value: number])[];
}

const PROMPT = [4, 9, 13, 22, 40];
const GENERATED = [4, 13, 4, 31, 2, 31, 22];
const EVEN = Array.from({ length: VOCABULARY }, (_, t) => t).filter((t) => t % 2 === 0);
/** Powers of two, by which a GPU divides exactly. */
const STRENGTHS = { repetition: 2, frequency: 0.7, presence: -0.45 };

const FRONTS: readonly Front[] = [
  { name: "plain", prompt: [], generated: PROMPT },
  { name: "penalties", prompt: PROMPT, generated: GENERATED, penalties: STRENGTHS },
  {
    name: "mask and biases",
    prompt: [],
    generated: PROMPT,
    allowed: EVEN,
    biases: [
      [5, 90],
      [8, 2.25],
      [22, -1.5],
      [40, Number.NEGATIVE_INFINITY],
    ],
  },
  {
    name: "all of them",
    prompt: PROMPT,
    generated: GENERATED,
    penalties: { repetition: 0.5, frequency: -0.3, presence: 1.1 },
    allowed: [...EVEN, 13, 31, 1, 3],
    biases: [
      [13, 1.75],
      [31, -0.5],
      [2, 0.25],
    ],
  },
];

type Rule = Required<Omit<RowSampling, "seed">>;
const NEUTRAL: Rule = { temperature: 1, topP: 1, topK: Number.POSITIVE_INFINITY, minP: 0 };
/** Of each filter: what cuts deepest beside the others, and what cuts less than they. */
const FILTERS = {
  topP: { deep: 0.5, shallow: 0.93 },
  topK: { deep: 5, shallow: 21 },
  minP: { deep: 0.4, shallow: 0.03 },
} as const;
type Filter = keyof typeof FILTERS;
const NAMES = Object.keys(FILTERS) as Filter[];

interface NamedRule extends Rule {
  /** The filter that decides how many tokens are left. */
  readonly deepest?: Filter;
}

/** Every set of filters, each of them once the deepest, at two temperatures. */
const RULES: readonly NamedRule[] = [1, 1.8].flatMap((temperature) => [
  { ...NEUTRAL, temperature },
  ...Array.from({ length: 2 ** NAMES.length - 1 }, (_, i) =>
    NAMES.filter((_, bit) => ((i + 1) >> bit) & 1),
  ).flatMap((chosen) =>
    chosen.map((deepest) => {
      const values = chosen.map((name) => [
        name,
        FILTERS[name][name === deepest ? "deep" : "shallow"],
      ]);
      return { ...NEUTRAL, temperature, deepest, ...Object.fromEntries(values) };
    }),
  ),
]);

const CELLS = FRONTS.flatMap((front) => RULES.map((rule) => ({ front, rule })));

/** Logits behind a front, as a plain loop has them. */
function adjusted({ penalties, prompt, generated, allowed, biases = [] }: Front): Float32Array {
  const row = penalties ? penalized(LOGITS, penalties, { prompt, generated }) : LOGITS.slice();
  if (allowed !== undefined) {
    for (const t of row.keys()) if (!allowed.includes(t)) row[t] = Number.NEGATIVE_INFINITY;
  }
  for (const [t, value] of biases) row[t]! += value;
  return row;
}

/**
 * The `d`-th draw of a cell. No two draws have the same seed and position; half of those that need
 * not match a history have positions of their own, and all have seeds of their own or share one.
 */
function rowOf(cell: number, d: number): SampledRow {
  const { front, rule } = CELLS[cell]!;
  const number = cell * 2 ** 16 + d;
  const { penalties, prompt, generated, allowed, biases } = front;
  const history = { tokens: [...prompt, ...generated], promptLength: prompt.length };
  const isSeeded = penalties !== undefined || d % 2 === 0;
  const mask = new Uint32Array(Math.ceil(VOCABULARY / 32));
  for (const t of allowed ?? []) mask[t >> 5]! |= 1 << (t & 31);
  return {
    sampling: { ...rule, seed: isSeeded ? 1000 + number : 5 },
    position: isSeeded ? history.tokens.length : 50 + number,
    penalties: penalties && { ...penalties, history },
    mask: allowed && mask,
    biases: biases && {
      tokens: Uint32Array.from(biases, ([t]) => t),
      values: Float32Array.from(biases, ([, value]) => value),
    },
  };
}

interface Drawn {
  /** For each cell, how often each token came. */
  readonly counts: readonly Float64Array[];
  /** For each front, the logits that tokens were drawn from. */
  readonly logits: readonly Float32Array[];
}

/** Draws for all cells: rows of all kinds stand side by side in each launch. */
async function drawAll(launches: number, rewrite?: RecorderOptions["rewrite"]): Promise<Drawn> {
  const recorder = new Recorder(device, { maxLaunches: 64, ...(rewrite && { rewrite }) });
  const memory = new DeviceMemory(device.limits, device);
  const logits = memory.allocate("activations", ROWS * STRIDE * 4, "logits");
  const sampled = memory.allocate("activations", ROWS * 4, "sampled");
  const plan = new Plan<Step>(recorder);
  const sampler = new Sampler(memory, {
    maxRows: ROWS,
    maxPenalizedRows: ROWS,
    vocabularySize: VOCABULARY,
    logits,
    logitsStride: STRIDE,
    sampled,
  });
  sampler.compile(plan);
  await recorder.pipelines.ready();
  const table = new Float32Array(ROWS * STRIDE);
  for (let r = 0; r < ROWS; r++) table.set(LOGITS, r * STRIDE);
  const counts = CELLS.map(() => new Float64Array(VOCABULARY));
  let after = new Float32Array();
  for (let launch = 0; launch < launches; launch++) {
    memory.write(logits, 0, table);
    const rows = Array.from({ length: ROWS }, (_, r) => {
      return rowOf(
        (launch * ROWS + r) % CELLS.length,
        Math.floor((launch * ROWS + r) / CELLS.length),
      );
    });
    const fitting = await sampler.makeRoom({ sampled: rows, scored: [] });
    sampler.prepare(fitting);
    await plan.run(EMPTY_STEP);
    recorder.submit();
    const ids = new Uint32Array(await download(sampled.buffer, sampled.offset, ROWS * 4));
    ids.forEach((id, r) => {
      counts[(launch * ROWS + r) % CELLS.length]![id]! += 1;
    });
    if (launch === 0)
      after = new Float32Array(await download(logits.buffer, logits.offset, ROWS * STRIDE * 4));
  }
  sampler.destroy();
  memory.destroy();
  recorder.destroy();
  const first = FRONTS.map((_, f) => f * RULES.length * STRIDE);
  return { counts, logits: first.map((at) => after.slice(at, at + VOCABULARY)) };
}

/** A distribution for each cell, or what a wrong sampler takes it for. */
type Distributions = readonly ArrayLike<number>[];

const RIGHT: Distributions = CELLS.map(({ front, rule }) => distribution(adjusted(front), rule));

interface Verdict {
  /** Of the cell that fits worst. */
  readonly worst: number;
  /** Of all cells together, and how likely it is that they fit even worse: neither may be small. */
  readonly all: number;
  readonly allBelow: number;
}

function judge(counts: readonly Float64Array[], expected: Distributions): Verdict {
  const tests: ChiSquare[] = counts.map((one, c) => chiSquare(one, expected[c]!));
  const all = pValue(sumOf(tests));
  return { worst: Math.min(...tests.map(pValue)), all, allBelow: 1 - all };
}

const isNoticed = (verdict: Verdict) => Math.min(...Object.values(verdict)) < UNLIKELY;

/** A wrong idea of what a sampler does. */
interface Fault {
  readonly temperature?: "ignored" | "after the filters";
  /** Tokens that top-k keeps too many. */
  readonly topKError?: number;
  /** Whether the token that reaches top-p is cut, or the one behind it kept. */
  readonly topPError?: -1 | 1;
  /** Probabilities that top-p adds up are those of what top-k has left. */
  readonly sequential?: boolean;
  /** What min-p is a share of. */
  readonly minPOf?: "one";
}

/** A second plain loop, which can be wrong on purpose. */
function filtered(logits: Float32Array, rule: Rule, fault: Fault): number[] {
  const { topP, minP } = rule;
  const temperature = fault.temperature === "ignored" ? 1 : rule.temperature;
  const topK = rule.topK + (fault.topKError ?? 0);
  const softmax = (divisor: number) => {
    const weights = Array.from(logits, (logit) => Math.exp(logit / divisor));
    const sum = weights.reduce((total, weight) => total + weight, 0);
    return weights.map((weight) => weight / sum);
  };
  const seen = softmax(fault.temperature === "after the filters" ? 1 : temperature);
  const order = [...seen.keys()].sort((a, b) => seen[b]! - seen[a]! || a - b);
  const best = seen[order[0]!]!;
  const left = order.slice(0, topK).reduce((sum, token) => sum + seen[token]!, 0);
  const whole = fault.sequential ? left : 1;
  const kept = new Set<number>();
  const before: number[] = [0];
  for (const token of order) before.push(before.at(-1)! + seen[token]!);
  order.forEach((token, rank) => {
    const sum = before[Math.max(rank - (fault.topPError ?? 0), 0)] ?? 1;
    const isIn = rank === 0 || fault.topPError !== -1 ? sum <= topP * whole : sum < topP * whole;
    const share = fault.minPOf === "one" ? seen[token]! : seen[token]! / best;
    if (rank < topK && (topP === 1 || isIn) && share >= minP) kept.add(token);
  });
  const drawn = softmax(temperature);
  const mass = drawn.reduce((sum, p, token) => sum + (kept.has(token) ? p : 0), 0);
  return drawn.map((p, token) => (kept.has(token) ? p / mass : 0));
}

const FILTER_FAULTS: readonly (readonly [string, Fault])[] = [
  ["the temperature is ignored", { temperature: "ignored" }],
  ["filters do not see the temperature", { temperature: "after the filters" }],
  ["top-k keeps one more", { topKError: 1 }],
  ["top-k keeps one less", { topKError: -1 }],
  ["top-p cuts the token that reaches it", { topPError: -1 }],
  ["top-p keeps one more", { topPError: 1 }],
  ["top-p comes after top-k, of what that leaves", { sequential: true }],
  ["min-p is a share of one", { minPOf: "one" }],
];

const without = (change: (front: Front) => Partial<Front>): Distributions =>
  CELLS.map(({ front, rule }) => distribution(adjusted({ ...front, ...change(front) }), rule));

const strengths = (change: Partial<PenaltyStrengths>): Distributions =>
  without(({ penalties }) => (penalties ? { penalties: { ...penalties, ...change } } : {}));

const FRONT_FAULTS: readonly (readonly [string, Distributions])[] = [
  ["the repetition penalty is ignored", strengths({ repetition: 1 })],
  ["the frequency penalty is ignored", strengths({ frequency: 0 })],
  ["the presence penalty is ignored", strengths({ presence: 0 })],
  ["the prompt is not repeated", without(() => ({ prompt: [] }))],
  [
    "the prompt counts as generated",
    without(({ prompt, generated }) => ({ prompt: [], generated: [...prompt, ...generated] })),
  ],
  ["a token counts once", without(({ generated }) => ({ generated: [...new Set(generated)] }))],
  [
    "the last token is not counted",
    without(({ generated }) => ({ generated: generated.slice(0, -1) })),
  ],
  [
    "a bias brings a masked token back",
    without(({ allowed, biases = [] }) =>
      allowed ? { allowed: [...allowed, ...biases.map(([token]) => token)] } : {},
    ),
  ],
  ["biases are ignored", without(() => ({ biases: [] }))],
];

/** Planted in the text of a kernel. */
const KERNEL_FAULTS: readonly (readonly [name: string, replace: string, by: string])[] = [
  ["the seed is ignored", "philox(draw.seed,", "philox(0u,"],
  ["four neighbouring seeds are one", "philox(draw.seed,", "philox(draw.seed & ~3u,"],
  ["the position is ignored", ", draw.position,", ", 0u,"],
  ["rows have their neighbour's rule", "draws[group.x]", "draws[group.x ^ 1u]"],
  ["top-k keeps one more", "draw.top_k", "(min(draw.top_k, 99u) + 1u)"],
  ["the temperature is ignored", "(logit - largest) / temperature", "(logit - largest)"],
  ["penalties come of another row's tokens", "item.slot * params.vocabulary", "0u"],
  ["the mask is another row's", "item.mask * params.mask_words", "0u"],
];

describe("draws of the sampler", async () => {
  const drawn = await drawAll(LAUNCHES);

  test.each(FRONTS.map((front, f) => [front.name, front, f] as const))(
    "%s: the logits are the very numbers of a plain loop",
    (_, front, f) => {
      expect(drawn.logits[f]).toEqual(adjusted(front));
    },
  );

  test.each(FRONTS.map((front, f) => [front.name, f] as const))(
    "%s: every combination of filters has its exact distribution",
    (_, f) => {
      RULES.forEach((rule, i) => {
        const cell = f * RULES.length + i;
        const p = pValue(chiSquare(drawn.counts[cell]!, RIGHT[cell]!));
        expect(p, JSON.stringify(rule)).toBeGreaterThan(UNLIKELY);
      });
    },
  );

  test("all of them together fit as draws do, neither worse nor better", () => {
    const verdict = judge(drawn.counts, RIGHT);
    expect(isNoticed(verdict)).toBe(false);
  });

  test("the deepest filter of a rule is the one that cuts", () => {
    const kept = (front: Front, rule: Rule) =>
      distribution(adjusted(front), rule).filter((p) => p > 0).length;
    for (const { front, rule } of CELLS) {
      const { deepest } = rule;
      if (deepest === undefined) continue;
      const alone = kept(front, {
        ...NEUTRAL,
        temperature: rule.temperature,
        [deepest]: rule[deepest],
      });
      expect(kept(front, rule)).toBe(alone);
      expect(
        kept(front, { ...rule, [deepest]: NEUTRAL[deepest] }),
        JSON.stringify({ front: front.name, rule }),
      ).toBeGreaterThan(alone);
    }
  });

  test("the plain loops agree", () => {
    CELLS.forEach(({ front, rule }, c) => {
      filtered(adjusted(front), rule, {}).forEach((p, token) => {
        expect(p).toBeCloseTo(RIGHT[c]![token]!, 12);
      });
    });
  });

  const faults = [
    ...FILTER_FAULTS.map(([name, fault]) => {
      const wrong = CELLS.map(({ front, rule }) => filtered(adjusted(front), rule, fault));
      return [name, wrong] as const;
    }),
    ...FRONT_FAULTS,
  ];
  // So few draws tell only what is far off.
  test.skipIf(smallestCaseOnly).each(faults)("do not come from a sampler where %s", (_, wrong) => {
    expect(isNoticed(judge(drawn.counts, wrong))).toBe(true);
  });
});

describe.skipIf(smallestCaseOnly)("a fault in a kernel is noticed", () => {
  test.each(KERNEL_FAULTS)("%s", async (_, replace, by) => {
    let planted = false;
    const { counts } = await drawAll(FAULTY_LAUNCHES, (_, code) => {
      planted ||= code.includes(replace);
      return code.replaceAll(replace, by);
    });
    expect(planted, "the text to replace is not there").toBe(true);
    expect(isNoticed(judge(counts, RIGHT))).toBe(true);
  });

  test("and none where there is none", async () => {
    expect(isNoticed(judge((await drawAll(FAULTY_LAUNCHES)).counts, RIGHT))).toBe(false);
  });
});
