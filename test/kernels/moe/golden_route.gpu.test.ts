import { existsSync, readFileSync } from "node:fs";
import { describe, expect, test } from "vitest";
import { type RoutingRule, route } from "../../../kernels/moe/route/route.ts";
import { Recorder } from "../../../src/gpu/recorder.ts";
import { whole } from "../../../src/gpu/tensor.ts";
import { device, download, upload } from "../../support/devices/gpu.ts";

const FILE = "../shared/data/golden/kernels.json";

interface Packed {
  readonly shape: readonly number[];
  readonly b64: string;
}
interface Config {
  readonly scoring_func?: "sigmoid" | "softmax";
  readonly topk_method?: "noaux_tc" | "group_limited_greedy" | "greedy";
  readonly norm_topk_prob: boolean;
  readonly routed_scaling_factor?: number;
  readonly n_group?: number;
  readonly topk_group?: number;
  readonly num_experts_per_tok: number;
}
interface Case {
  readonly name: string;
  readonly config: Config;
  readonly x: Packed;
  readonly gate: Packed;
  readonly indices: Packed;
  readonly weights: Packed;
  readonly bias?: Packed;
}

const bytes = ({ b64 }: Packed) => new Uint8Array(Buffer.from(b64, "base64"));
const floats = (packed: Packed) => new Float32Array(bytes(packed).buffer);
const integers = (packed: Packed) => new Int32Array(bytes(packed).buffer);

const GROUPINGS = { noaux_tc: "twoBest", group_limited_greedy: "best", greedy: "none" } as const;

function ruleOf(config: Config, experts: number): RoutingRule {
  return {
    experts,
    topK: config.num_experts_per_tok,
    scoring: config.scoring_func ?? "softmax",
    grouping: GROUPINGS[config.topk_method ?? "greedy"],
    groups: config.n_group ?? 1,
    keptGroups: config.topk_group ?? 1,
    normalize: config.norm_topk_prob,
    scaling: config.routed_scaling_factor ?? 1,
  };
}

/** Router logits in f64, rounded once. */
function logitsOf(x: Packed, gate: Packed): Float32Array {
  const [experts, cols] = gate.shape as [number, number];
  const rows = floats(x);
  const weight = floats(gate);
  return Float32Array.from({ length: (rows.length / cols) * experts }, (_, i) => {
    const r = Math.floor(i / experts) * cols;
    const e = (i % experts) * cols;
    let sum = 0;
    for (let c = 0; c < cols; c++) sum += rows[r + c]! * weight[e + c]!;
    return sum;
  });
}

function cases(): Case[] {
  const golden = JSON.parse(readFileSync(FILE, "utf8"));
  const block = golden.moe_block;
  return [
    ...golden.moe_routing.map((entry: Case & { gate_weight: Packed }) => ({
      ...entry,
      gate: entry.gate_weight,
    })),
    {
      ...{ name: "moe_block", config: block.config, x: block.x, indices: block.indices },
      gate: block.weights["gate.weight"],
      bias: block.weights["gate.e_score_correction_bias"],
      weights: block.topk_weights,
    },
  ];
}

describe.skipIf(!existsSync(FILE))("golden routings (needs ../shared/data)", () => {
  test.each(existsSync(FILE) ? cases() : [])("$name", async (golden) => {
    const rule = ruleOf(golden.config, golden.gate.shape[0]!);
    const { experts, topK } = rule;
    const logits = logitsOf(golden.x, golden.gate);
    const rows = logits.length / experts;
    const recorder = new Recorder(device, { maxLaunches: 1 });
    const chosen = whole(upload(new Uint32Array(rows * topK)));
    const weights = whole(upload(new Float32Array(rows * topK)));
    const launch = route(recorder, {
      ...rule,
      logits: whole(upload(logits)),
      bias: golden.bias && whole(upload(floats(golden.bias))),
      placement: whole(upload(Uint32Array.from({ length: experts }, (_, e) => e))),
      chosen,
      weights,
      hits: whole(upload(new Uint32Array(1 + experts))),
      firstHit: 1,
    });
    await recorder.pipelines.ready();
    launch(rows);
    recorder.submit();
    const gotIndices = new Uint32Array(await download(chosen.buffer));
    const gotWeights = new Float32Array(await download(weights.buffer));
    const byExpert = (indices: ArrayLike<number>, values: ArrayLike<number>, r: number) =>
      Array.from({ length: topK }, (_, k) => [indices[r * topK + k]!, values[r * topK + k]!]).sort(
        (a, b) => a[0]! - b[0]!,
      );
    const wantIndices = integers(golden.indices);
    const wantWeights = floats(golden.weights);
    for (let r = 0; r < rows; r++) {
      const got = byExpert(gotIndices, gotWeights, r);
      const want = byExpert(wantIndices, wantWeights, r);
      expect(got.map(([e]) => e)).toEqual(want.map(([e]) => e));
      got.forEach(([, weight], k) => {
        expect(Math.abs(weight! / want[k]![1]! - 1)).toBeLessThan(1e-5);
      });
    }
    recorder.destroy();
  });
});
