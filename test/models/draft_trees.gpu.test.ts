/** Rows of draft trees have the bits of plain decoding along their paths. */
import { beforeAll, describe, expect, test } from "vitest";
import type { WeightSource } from "../../src/checkpoint/source.ts";
import type { LoadOptions } from "../../src/engine/load/load_options.ts";
import { PLAIN_TUNING } from "../../src/gpu/tuning.ts";
import type { Batch } from "../../src/layers/batch.ts";
import { MAX_TREE_NODES } from "../../src/layers/draft_tree.ts";
import { SHARED_MODELS } from "../support/checkpoints/folder_source.ts";
import { randomDeepseek } from "../support/checkpoints/random_deepseek.ts";
import { randomGqa } from "../support/checkpoints/random_gqa.ts";
import { seeded, smallestCaseOnly } from "../support/devices/gpu.ts";
import {
  best,
  GREEDY,
  ModelSession,
  type SessionSequence,
  type TreeRows,
} from "../support/engines/model_session.ts";

const random = seeded(11);
const tokens = (count: number) =>
  Array.from({ length: count }, () => 3 + Math.floor(random() * 190));

/** What is in front of a tree, its nodes, and the path of it that is accepted. */
interface Drafted {
  readonly before: readonly number[];
  readonly parents: readonly number[];
  readonly tokens: readonly number[];
  readonly path: readonly number[];
}

const drafted = (before: number, parents: readonly number[], path: readonly number[]): Drafted => ({
  before: tokens(before),
  parents,
  tokens: tokens(parents.length),
  path,
});

const DRAFTED: readonly Drafted[] = [
  // Its paths go over the end of a split of 256 keys.
  drafted(
    smallestCaseOnly ? 30 : 253,
    [-1, 0, 0, 0, 1, 1, 2, 4, 5, 7, 8, 9, 9, 11, 12, 13, 14, 13],
    [0, 1, 4, 7, 9, 11, 13, 17],
  ),
  // As deep as a tree may be.
  drafted(61, [-1, ...Array.from({ length: 16 }, (_, i) => i)], [0, 1, 2, 3, 4]),
  // No token in front of it; the last of the root's children.
  drafted(0, [-1, 0, 0, 0, 0], [0, 4]),
  // Nothing but the root is accepted.
  drafted(15, [-1, 0, 0, 1, 2, 3], [0]),
];
const NODES = 18;
/** A sequence that is decoded, and a prompt, in the step of the trees. */
const PLAIN = tokens(40);
const PROMPT = tokens(33);
/** Tokens that are decoded behind an accepted path. */
const STEPS = 3;

const bits = (rows: readonly Float32Array[]) => rows.map((row) => new Uint32Array(row.buffer));

interface Case {
  readonly name: string;
  readonly source: () => WeightSource | string;
  readonly options?: Partial<LoadOptions>;
  readonly pageSizes: readonly number[];
}

const folded = {
  ...PLAIN_TUNING,
  foldsNorms: true,
  attention: { ...PLAIN_TUNING.attention!, sharesReads: true },
};
const E4M3 = { cacheDtype: "fp8_e4m3" } as const;
const deepseek = () => randomDeepseek({});
const qwen3 = () => randomGqa({ family: "qwen3" });
const llama = () => randomGqa({});
const windowed = () => randomGqa({ family: "gptOss", config: { sliding_window: 40 } });

const ALL: readonly Case[] = [
  { name: "DeepSeek", source: deepseek, pageSizes: [1, 16, 64] },
  { name: "DeepSeek, an FP8 cache", source: deepseek, options: E4M3, pageSizes: [16] },
  {
    name: "DeepSeek, deterministic",
    source: deepseek,
    options: { deterministicInference: true },
    pageSizes: [16],
  },
  {
    name: "Qwen3, norms folded",
    source: qwen3,
    options: { tuning: folded },
    pageSizes: [1, 16, 64],
  },
  { name: "Llama, an FP8 cache", source: llama, options: E4M3, pageSizes: [16] },
  { name: "gpt-oss", source: windowed, pageSizes: [64] },
];
const SHARED: readonly Case[] = [
  { name: "tiny DeepSeek-V3", source: () => "tiny-deepseek-v3-fp8", pageSizes: [16] },
];
const CASES = smallestCaseOnly
  ? ALL.slice(0, 1)
  : [...ALL, ...(SHARED_MODELS === undefined ? [] : SHARED)];

async function started(session: ModelSession, before: readonly number[]): Promise<SessionSequence> {
  const sequence = session.sequence(before, 1);
  await session.prefill(sequence);
  return sequence;
}

/** Logits of each node, decoded behind its parent, which stays where it is until all below it are. */
async function alongPaths(session: ModelSession, { before, parents, tokens: own }: Drafted) {
  const sequence = await started(session, before);
  const logits: Float32Array[] = [];
  const visit = async (node: number, depth: number) => {
    sequence.computed = before.length + depth;
    sequence.tokens.length = sequence.computed;
    sequence.tokens.push(own[node]!);
    logits[node] = (await session.decode([sequence]))[0]!;
    for (let child = node + 1; child < parents.length; child++) {
      if (parents[child] === node) await visit(child, depth + 1);
    }
  };
  await visit(0, 0);
  session.release(sequence);
  return logits;
}

/** The best tokens behind a sequence's newest, whose logits are given. */
async function goOn(session: ModelSession, sequence: SessionSequence, last: Float32Array) {
  const logits = [last];
  while (logits.length <= STEPS) {
    sequence.tokens.push(best(logits.at(-1)!));
    logits.push((await session.decode([sequence]))[0]!);
  }
  return logits;
}

/** The same, behind a path that was decoded token by token. */
async function behindPath(session: ModelSession, { before, tokens: own, path }: Drafted) {
  const sequence = await started(session, before);
  let last: Float32Array | undefined;
  for (const node of path) {
    sequence.tokens.push(own[node]!);
    last = (await session.decode([sequence]))[0]!;
  }
  const logits = await goOn(session, sequence, last!);
  session.release(sequence);
  return logits;
}

describe.each(CASES)("trees of $name", ({ source, options, pageSizes }) => {
  const open = (more: Partial<LoadOptions>) => ModelSession.open(source(), { ...options, ...more });
  const want = {
    nodes: [] as Uint32Array[][],
    behind: [] as Uint32Array[][],
    plain: [] as Uint32Array[],
    prompt: [] as Uint32Array[],
  };

  beforeAll(async () => {
    const session = await open({ pageSize: 16 });
    for (const one of DRAFTED) {
      want.nodes.push(bits(await alongPaths(session, one)));
      want.behind.push(bits(await behindPath(session, one)));
    }
    const plain = await started(session, PLAIN.slice(0, -1));
    plain.tokens.push(PLAIN.at(-1)!);
    want.plain = bits(await session.decode([plain]));
    want.prompt = bits(await session.prefill(session.sequence(PROMPT)));
    session.close();
  });

  test.each(pageSizes)("pages of %i: every node, and what follows a path", async (pageSize) => {
    const session = await open({ pageSize, maxTreeNodes: NODES });
    const trees: TreeRows[] = [];
    for (const { before, parents, tokens: own } of DRAFTED) {
      const sequence = await started(session, before);
      trees.push({ sequence, phase: "verify", parents, tokens: own });
    }
    const plain = await started(session, PLAIN.slice(0, -1));
    plain.tokens.push(PLAIN.at(-1)!);
    const [first, ...others] = trees;
    const logits = await session.run([
      first!,
      { sequence: plain, phase: "decode", count: 1 },
      ...others,
      { sequence: session.sequence(PROMPT), phase: "prefill", count: PROMPT.length },
    ]);
    const got = bits(logits);
    const ofTrees = [got.splice(0, NODES)];
    expect(got.splice(0, 1)).toEqual(want.plain);
    for (const { parents } of others) ofTrees.push(got.splice(0, parents.length));
    expect(ofTrees).toEqual(want.nodes);
    expect(got).toEqual(want.prompt);
    for (const [i, tree] of trees.entries()) {
      const { path } = DRAFTED[i]!;
      session.accept(tree, path);
      const last = new Float32Array(ofTrees[i]![path.at(-1)!]!.buffer);
      expect(bits(await goOn(session, tree.sequence, last))).toEqual(want.behind[i]);
    }
    session.close();
  });
});

describe("plans and trees", () => {
  const tree = (sequence: SessionSequence): TreeRows => {
    return { sequence, phase: "verify", parents: [-1, 0, 0], tokens: [7, 8, 9] };
  };
  const labels = ({ loaded }: ModelSession) => loaded.pipelines.map(({ label }) => label).sort();

  test("a plan without trees refuses one and goes on; it has nothing that is for them", async () => {
    const session = await ModelSession.open(llama());
    const sequence = await started(session, [3, 4, 5]);
    expect(session.loaded.mover).toBeUndefined();
    await expect(session.run([tree(sequence)])).rejects.toThrow("this plan is made without trees");
    sequence.tokens.push(7);
    const [logits] = await session.decode([sequence]);

    const other = await ModelSession.open(llama(), { maxTreeNodes: 3 });
    const again = await started(other, [3, 4, 5]);
    again.tokens.push(7);
    // Steps without trees are the same, launch by launch.
    const batch = ({ pageTable }: SessionSequence): Batch => ({
      sequences: [{ phase: "decode", queryStart: 0, queryLength: 1, position: 3, pageTable }],
      sources: Uint32Array.of(7),
      logitRows: Uint32Array.of(0),
    });
    const sampled = [{ sampling: GREEDY, position: 0 }];
    const counts = await session.loaded.runner.countLaunches(batch(sequence), sampled);
    expect(await other.loaded.runner.countLaunches(batch(again), sampled)).toEqual(counts);
    expect(bits(await other.decode([again]))).toEqual(bits([logits!]));
    const known = labels(session);
    const more = labels(other).filter((label) => {
      const at = known.indexOf(label);
      if (at >= 0) known.splice(at, 1);
      return at < 0;
    });
    expect(known).toEqual([]);
    const names = new Set(more.map((label) => label.split(" ")[0]));
    expect([...names]).toEqual(["attention/gqa_decode", "cache/move_entries"]);
    session.close();
    other.close();
  });

  test("trees at the end of the context have entries behind it", async () => {
    const before = tokens(29);
    const fan = Array.from({ length: NODES }, (_, node) => Math.min(node, 1) - 1);
    const one = { before, parents: fan, tokens: tokens(NODES), path: [] };
    const options = { contextLength: 32, pageSize: 16, maxTreeNodes: NODES };
    const session = await ModelSession.open(llama(), options);
    const want = bits(await alongPaths(session, one));
    const trees: TreeRows[] = [];
    for (let i = 0; i < 2; i++) {
      const sequence = await started(session, before);
      trees.push({ sequence, phase: "verify", parents: fan, tokens: one.tokens });
    }
    expect(bits(await session.run(trees))).toEqual([...want, ...want]);
    session.close();
  });

  test.each([-1, 1.5, MAX_TREE_NODES + 1])("%d nodes are refused", async (maxTreeNodes) => {
    await expect(ModelSession.open(llama(), { maxTreeNodes })).rejects.toThrow(
      `maxTreeNodes must be an integer from 0 to 64, got ${maxTreeNodes}`,
    );
  });
});
