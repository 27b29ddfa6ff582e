/**
 * Draft trees of a model that is driven without an engine, beside plain decoding along their paths.
 *
 * @module
 */
import { beforeAll, describe, expect, test } from "vitest";
import type { WeightSource } from "../../src/checkpoint/source.ts";
import type { LoadOptions } from "../../src/engine/load/load_options.ts";
import { seeded, smallestCaseOnly } from "../support/devices/gpu.ts";
import {
  best,
  ModelSession,
  type SessionSequence,
  type TreeRows,
} from "../support/engines/model_session.ts";

const random = seeded(11);
export const tokens = (count: number) =>
  Array.from({ length: count }, () => 3 + Math.floor(random() * 190));

/** What is in front of a tree, its nodes, and the path of it that is accepted. */
export interface Drafted {
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
export const NODES = 18;
/** A sequence that is decoded, and a prompt, in the step of the trees. */
const PLAIN = tokens(40);
const PROMPT = tokens(33);
/** Tokens that are decoded behind an accepted path. */
const STEPS = 3;

export const bits = (rows: readonly Float32Array[]) =>
  rows.map((row) => new Uint32Array(row.buffer));

export interface TreeCase {
  readonly name: string;
  readonly source: () => WeightSource | string;
  readonly options?: () => Promise<Partial<LoadOptions>>;
  readonly pageSizes: readonly number[];
}

export async function started(
  session: ModelSession,
  before: readonly number[],
): Promise<SessionSequence> {
  const sequence = session.sequence(before, 1);
  await session.prefill(sequence);
  return sequence;
}

/** Logits of each node, decoded behind its parent, which stays where it is until all below it are. */
export async function alongPaths(session: ModelSession, { before, parents, tokens: own }: Drafted) {
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

/** Tests that rows of trees have the bits of plain decoding, and so has what follows a path. */
export function testTrees(cases: readonly TreeCase[]): void {
  describe.each(cases)("trees of $name", ({ source, options, pageSizes }) => {
    const open = async (more: Partial<LoadOptions>) =>
      ModelSession.open(source(), { ...(await options?.()), ...more });
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
}
