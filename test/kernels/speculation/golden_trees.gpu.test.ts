/** The trees that a draft's probabilities become, on the GPU. */
import { describe, expect, test } from "vitest";
import { PATH_WORDS } from "../../../kernels/attention/tree_paths.ts";
import { END_WORDS } from "../../../kernels/speculation/accept_rows.ts";
import { acceptTrees, TREE_ENTRY_WORDS } from "../../../kernels/speculation/trees/accept_trees.ts";
import { chooseTree } from "../../../kernels/speculation/trees/choose_tree.ts";
import { CANDIDATE_WORDS, growBeams } from "../../../kernels/speculation/trees/grow_beams.ts";
import { Recorder } from "../../../src/gpu/recorder.ts";
import { allocateTensor, type Tensor, whole } from "../../../src/gpu/tensor.ts";
import { DraftTreeShape } from "../../../src/speculation/draft_tree_shape.ts";
import { goldenTrees, type TreeCase, WORKED } from "../../speculation/draft_trees.ts";
import { device, download, upload } from "../../support/devices/gpu.ts";
import { hasSharedData, skipNote } from "../../text/shared_data.ts";

const GOLDEN = hasSharedData ? goldenTrees() : undefined;
const PAGES = 64;

const empty = (words: number): Tensor => allocateTensor(device, words * 4, "empty");
const uploaded = (data: Uint32Array<ArrayBuffer> | Float32Array<ArrayBuffer>) =>
  whole(upload(data));

async function words({ buffer, offset }: Tensor, count: number): Promise<Uint32Array> {
  return new Uint32Array(await download(buffer, offset, count * 4));
}

/** Candidates, and nodes behind the root, of a sequence whose newest token stands at `seq_len`. */
async function grown(given: TreeCase) {
  const { num_steps: steps, topk, num_draft_tokens: draftTokens, seq_len: length } = given;
  const { poolSize } = new DraftTreeShape({ steps, topk, draftTokens });
  const recorder = new Recorder(device);
  const entries = uploaded(Uint32Array.of(0, 1, 4096, 0, 0, length - 1, 0, 0, length));
  const pool = empty(poolSize * CANDIDATE_WORDS);
  const probabilities = empty(topk ** 2);
  const tokens = empty(topk ** 2);
  const beams = empty(topk);
  const nodes = draftTokens - 1;
  const ids = empty(2 * nodes);
  const tensors = { entries, probabilities, tokens, pool, beams };
  const grow = growBeams(recorder, {
    ...{ ...tensors, rows: empty(topk * 4), parentRows: empty(topk) },
    ...{ pageTables: empty(PAGES + topk * PATH_WORDS), firstPath: PAGES },
    ...{ topk, poolSize, pageSize: 64, maxPositions: 4096, paddingSlot: 0, paddingPage: 0 },
  });
  const choose = chooseTree(recorder, { pool, entries, ids, ends: empty(END_WORDS), poolSize });
  await recorder.pipelines.ready();
  const chosen: number[][] = [];
  for (const { p, ids: own } of given.steps) {
    const { queue } = device;
    queue.writeBuffer(probabilities.buffer, probabilities.offset, Float32Array.from(p.flat()));
    queue.writeBuffer(tokens.buffer, tokens.offset, Uint32Array.from(own.flat()));
    grow(1);
    recorder.submit();
    chosen.push([...(await words(beams, topk))]);
  }
  choose(1, { candidates: poolSize, nodes, firstId: 0 });
  recorder.submit();
  const candidates = await words(pool, poolSize * CANDIDATE_WORDS);
  const scores = new Float32Array(candidates.buffer).filter((_, i) => i % CANDIDATE_WORDS === 0);
  const all = [...(await words(ids, 2 * nodes))];
  recorder.destroy();
  return { scores, beams: chosen, tokens: all.slice(0, nodes), parents: all.slice(nodes) };
}

/** The last node of the path that drawn tokens follow, and what moves. */
async function walked({ expect: { tokens, parents } }: TreeCase, drawn: readonly number[]) {
  const { length } = tokens;
  const recorder = new Recorder(device);
  const lastRows = empty(1);
  const runs = empty(2);
  const moves = empty(32);
  const rows = tokens.flatMap((token, node) => [token, 0, 100 + node, 0]);
  const accept = acceptTrees(recorder, {
    entries: uploaded(Uint32Array.from([0, length, ...new Array(TREE_ENTRY_WORDS - 2).fill(0)])),
    parents: uploaded(Uint32Array.from(parents)),
    logitRows: uploaded(Uint32Array.from(tokens, (_, node) => node)),
    rows: uploaded(Uint32Array.from(rows)),
    sampled: uploaded(Uint32Array.from(drawn)),
    ...{ lastRows, runs, moves },
  });
  await recorder.pipelines.ready();
  accept(1);
  recorder.submit();
  const [last] = await words(lastRows, 1);
  const [, count] = await words(runs, 2);
  const moved = [...(await words(moves, 2 * count!))];
  recorder.destroy();
  return { last, moved };
}

describe.each([WORKED, ...(GOLDEN?.trees ?? [])])(`the tree $name${skipNote}`, (given) => {
  const { expect: wanted } = given;

  test("has its candidates, beams and nodes", async () => {
    const got = await grown(given);
    // Probabilities are written with few digits, so a product may be its f32 neighbour.
    wanted.pool_scores.forEach((score, id) => {
      expect(Math.abs(got.scores[id]! - score)).toBeLessThanOrEqual(score * 2 ** -23);
    });
    expect(got.beams).toEqual(wanted.beams);
    expect(got.tokens).toEqual(wanted.tokens.slice(1));
    expect(got.parents).toEqual(wanted.parents.slice(1));
  });

  test("is followed to where drawn tokens end", async () => {
    for (const { note, target, accepted_nodes: path } of given.greedy) {
      const { last, moved } = await walked(given, target);
      expect(last, note).toBe(path.at(-1));
      const pairs = path.flatMap((node, depth) =>
        node === depth ? [] : [100 + node, 100 + depth],
      );
      expect(moved, note).toEqual(pairs);
    }
  });
});
