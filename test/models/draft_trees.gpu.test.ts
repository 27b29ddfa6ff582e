/** Rows of draft trees have the bits of plain decoding along their paths. */
import { describe, expect, test } from "vitest";
import { PLAIN_TUNING } from "../../src/gpu/tuning.ts";
import type { Batch } from "../../src/layers/batch.ts";
import { MAX_TREE_NODES } from "../../src/layers/draft_tree.ts";
import { randomDeepseek } from "../support/checkpoints/random_deepseek.ts";
import { randomGqa } from "../support/checkpoints/random_gqa.ts";
import { smallestCaseOnly } from "../support/devices/gpu.ts";
import {
  GREEDY,
  ModelSession,
  type SessionSequence,
  type TreeRows,
} from "../support/engines/model_session.ts";
import {
  alongPaths,
  bits,
  NODES,
  started,
  type TreeCase,
  testTrees,
  tokens,
} from "./tree_sessions.ts";

const folded = {
  ...PLAIN_TUNING,
  foldsNorms: true,
  attention: { ...PLAIN_TUNING.attention!, sharesReads: true },
};
const llama = () => randomGqa({});

const CASES: readonly TreeCase[] = [
  { name: "DeepSeek", source: () => randomDeepseek({}), pageSizes: [16] },
  {
    name: "Qwen3, norms folded, tokens of a sequence sharing reads",
    source: () => randomGqa({ family: "qwen3" }),
    options: async () => ({ tuning: folded }),
    pageSizes: [1, 64],
  },
];

// test/models/classes has other models and forms.
testTrees(smallestCaseOnly ? CASES.slice(0, 1) : CASES);

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
