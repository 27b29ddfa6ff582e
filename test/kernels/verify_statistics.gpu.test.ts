/**
 * Rows with drafts behind them: by thresholds of 1 their tokens have the target's distribution, by
 * others the one that the rule of coins gives for drafts that nothing is known of. A chi-square test
 * of pairs of tokens tells other thresholds and wrong coins.
 */
import { describe, expect, test } from "vitest";
import { CHILDREN_WORDS, NO_ROW, verify } from "../../kernels/sampling/coins/verify.ts";
import type { Thresholds } from "../../kernels/sampling/coins/verify_reference.ts";
import { philox } from "../../kernels/sampling/reference.ts";
import { DRAW_WORDS, writeDraw } from "../../kernels/sampling/sample.ts";
import { Recorder, type RecorderOptions } from "../../src/gpu/recorder.ts";
import { whole } from "../../src/gpu/tensor.ts";
import { type DraftTree, linkTree, NO_NODE } from "../../src/speculation/draft_tree.ts";
import { device, download, fullTest, smallestCaseOnly, upload } from "../support/devices/gpu.ts";
import {
  drawn,
  LIKELY,
  type PairModel,
  pairModel,
  strangeness,
  VOCABULARY,
  WRONG,
} from "../support/reference/token_pairs.ts";

/** Runs of a launch; on the slow driver, where a barrier takes long, hardly more than a try. */
const RUNS = fullTest ? 9000 : smallestCaseOnly ? 300 : 2500;
const EXACT: Thresholds = { single: 1, acc: 1 };
/** Where the first of two tokens stands. */
const POSITION = 17;
const SEEDS = [1, 2, 3];

/** Drafts of two tokens, for each run. */
type Drafts = (seed: number) => DraftTree;

const fixed =
  (tree: DraftTree): Drafts =>
  () =>
    tree;
const DRAFTS: Readonly<Record<string, Drafts>> = {
  chain: fixed(linkTree({ tokens: [0, 2, 4], parents: [-1, 0, 1] })),
  fan: fixed(linkTree({ tokens: [0, 3, 1, 5], parents: [-1, 0, 0, 0] })),
  tree: fixed(linkTree({ tokens: [0, 2, 4, 1, 3, 2, 0], parents: [-1, 0, 0, 1, 1, 2, 2] })),
  // As steps draw them: by the plain sampler's number for the position.
  "chain that is drawn": (seed) => {
    const numbers = [0, 1].map((i) => philox(seed, POSITION + i) / 2 ** 32);
    return linkTree({
      tokens: [0, ...numbers.map((number) => Math.floor(number * VOCABULARY))],
      parents: [-1, 0, 1],
    });
  },
};

interface Options {
  readonly thresholds?: Thresholds;
  readonly rewrite?: RecorderOptions["rewrite"];
}

/** The distribution of a token for which there are such drafts. */
function ruled(target: readonly number[], drafts: readonly number[], { single, acc }: Thresholds) {
  let [share, taken] = [0, 0];
  const accepted = new Map<number, number>();
  for (const draft of drafts) {
    share += target[draft]!;
    const upTo = target[draft]! >= single ? 1 : Math.min(1, share / acc);
    accepted.set(draft, upTo - taken);
    taken = upTo;
  }
  return target.map((p, token) => accepted.get(token) ?? ((1 - taken) * p) / (1 - share));
}

/** The distribution of pairs for which there are the drafts of a tree. */
function ruledModel({ first, second }: PairModel, tree: DraftTree, thresholds: Thresholds) {
  const nodes = Array.from(tree.parents, (_, node) => node);
  const children = (parent: number) => nodes.filter((node) => tree.parents[node] === parent);
  const draftsOf = (node: number) => children(node).map((child) => tree.tokens[child]!);
  return {
    first: ruled(first, draftsOf(0), thresholds),
    second: second.map((target, token) => {
      const node = children(0).find((child) => tree.tokens[child] === token);
      return node === undefined ? target : ruled(target, draftsOf(node), thresholds);
    }),
  };
}

/** How strange the pairs are that runs leave whose seeds begin at `seed`, by the rule of `law`. */
async function strangenessOf(
  drafts: Drafts,
  seed: number,
  { law, ...options }: Options & { readonly law?: Thresholds } = {},
): Promise<number> {
  const model = pairModel(seed);
  const seedOf = (run: number) => seed * 1_000_003 + run;
  const trees = Array.from({ length: RUNS }, (_, run) => drafts(seedOf(run)));
  const nodes = trees[0]!.tokens.length;
  const count = RUNS * nodes;
  const logits = new Float32Array(count * VOCABULARY);
  const draws = new DataView(new ArrayBuffer(count * DRAW_WORDS * 4));
  const children = new Uint32Array(count * CHILDREN_WORDS);
  const rows = new Uint32Array(count * 4);
  trees.forEach(({ tokens, depths, firstChild, nextSibling }, run) => {
    const rowOf = (node: number) => (node === NO_NODE ? NO_ROW : run * nodes + node);
    for (let node = 0; node < nodes; node++) {
      const row = rowOf(node);
      // Behind two tokens comes a third one, of which nothing is counted.
      const target = node === 0 ? model.first : model.second[tokens[node]!]!;
      logits.set(target.map(Math.log), row * VOCABULARY);
      const [position, seed] = [POSITION + depths[node]!, seedOf(run)];
      writeDraw(draws, row, { temperature: 1, topP: 1, topK: Infinity, seed, position });
      children.set([rowOf(firstChild[node]!), rowOf(nextSibling[node]!)], row * CHILDREN_WORDS);
      rows[row * 4] = tokens[node]!;
    }
  });
  const ids = await verified(count, { logits, draws, children, rows }, options);
  const counts = new Float64Array(VOCABULARY ** 2);
  trees.forEach((tree, run) => {
    const [a, b] = output(tree, ids.subarray(run * nodes));
    const plain = philox(seedOf(run), POSITION + 1) / 2 ** 32;
    counts[a! * VOCABULARY + (b ?? drawn(model.second[a!]!, plain))]! += 1;
  });
  return strangeness(law ? ruledModel(model, trees[0]!, law) : model, counts);
}

/** The tokens on the way from the root to the node whose token is no draft. */
function output({ tokens, firstChild, nextSibling }: DraftTree, ids: Uint32Array): number[] {
  const path: number[] = [];
  for (let node = 0; node !== NO_NODE; ) {
    const id = ids[node]!;
    path.push(id);
    let child = firstChild[node]!;
    while (child !== NO_NODE && tokens[child] !== id) child = nextSibling[child]!;
    node = child;
  }
  return path;
}

interface Inputs {
  readonly logits: Float32Array<ArrayBuffer>;
  readonly draws: DataView<ArrayBuffer>;
  readonly children: Uint32Array<ArrayBuffer>;
  readonly rows: Uint32Array<ArrayBuffer>;
}

async function verified(count: number, inputs: Inputs, options: Options): Promise<Uint32Array> {
  const { thresholds = EXACT, rewrite } = options;
  const recorder = new Recorder(device, { maxLaunches: 1, ...(rewrite && { rewrite }) });
  const tensors = {
    logits: whole(upload(inputs.logits)),
    draws: whole(upload(inputs.draws)),
    children: whole(upload(inputs.children)),
    rows: whole(upload(inputs.rows)),
    logitRows: whole(upload(Uint32Array.from({ length: count }, (_, i) => i))),
    ids: whole(upload(new Uint32Array(count))),
  };
  const launch = verify(recorder, { ...tensors, ...thresholds, vocabulary: VOCABULARY });
  await recorder.pipelines.ready();
  launch(count);
  recorder.submit();
  const ids = new Uint32Array(await download(tensors.ids.buffer));
  for (const { buffer } of Object.values(tensors)) buffer.destroy();
  recorder.destroy();
  return ids;
}

test.each(Object.entries(DRAFTS))("tokens behind a %s are the target's", async (_, drafts) => {
  for (const seed of SEEDS) {
    expect(Math.abs(await strangenessOf(drafts, seed))).toBeLessThan(LIKELY);
  }
});

test.each<Thresholds>([
  { single: 1, acc: 0.7 },
  { single: 0.3, acc: 0.6 },
])("by thresholds of $single and $acc tokens have the rule's distribution", async (thresholds) => {
  const options = { thresholds, law: thresholds };
  for (const seed of SEEDS) {
    expect(await strangenessOf(DRAFTS.tree!, seed, options)).toBeLessThan(LIKELY);
  }
});

describe.skipIf(smallestCaseOnly)("the test tells", () => {
  test.each([
    ["a divisor of 0.7", { single: 1, acc: 0.7 }],
    ["a single probability of 0.1", { single: 0.1, acc: 1 }],
  ])("%s", async (_, thresholds) => {
    expect(await strangenessOf(DRAFTS.tree!, 1, { thresholds })).toBeGreaterThan(WRONG);
  });

  test.each([
    ["a coin that is the token's number", "COIN_STREAM)", "TOKEN_STREAM)"],
    ["coins that lie anywhere", "if draft_of(child) == drawn {", "if false {"],
  ])("%s", async (_, replace, by) => {
    const rewrite = (_: string, code: string) => code.replaceAll(replace, by);
    const thresholds = { single: 1, acc: 0.7 };
    const options = { thresholds, law: thresholds, rewrite };
    expect(await strangenessOf(DRAFTS.tree!, 1, options)).toBeGreaterThan(WRONG);
  });
});
