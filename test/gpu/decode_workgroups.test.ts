/**
 * Workgroups of the launches of one request's decode step on an AMD GPU of 96 compute units: two for each,
 * or a reason. The plan is the engine's own, on a device that is only described.
 */
import { beforeAll, describe, expect, test, vi } from "vitest";
import { DescribedModel } from "../../src/simulate/described_model.ts";
import { StepNotes } from "../../src/simulate/step_work.ts";
import { deepseekV3 } from "../support/synthetic/deepseek_v3.ts";
import { qwen3 } from "../support/synthetic/qwen3.ts";
import { type SyntheticModel, syntheticSource } from "../support/synthetic/source.ts";

const ENOUGH = 2 * 96;
const ADAPTER = {
  ...{ vendor: "amd", architecture: "rdna-3", device: "", description: "" },
  limits: {
    maxStorageBufferBindingSize: 2 ** 32 - 4,
    maxStorageBuffersPerShaderStage: 16,
    maxComputeWorkgroupStorageSize: 32_768,
  },
};

interface Launch {
  /** Of the model, such as "layer 3". */
  readonly part: string;
  readonly kernel: string;
  readonly workgroups: number;
}

interface Launched {
  readonly name: string;
  readonly model: () => SyntheticModel;
  readonly ranks: number;
  /** Launches of each kind of layer, of one split of keys and of several. */
  readonly ofLayers: Readonly<Record<string, readonly [near: number, far: number]>>;
}

const qwen8b = () =>
  qwen3({
    ...{ num_hidden_layers: 2, max_window_layers: 2, vocab_size: 151_936 },
    ...{ hidden_size: 4096, intermediate_size: 12_288, tie_word_embeddings: false },
    ...{ num_attention_heads: 32, num_key_value_heads: 8 },
  });

const MODELS: readonly Launched[] = [
  { name: "Qwen3-8B", model: qwen8b, ranks: 1, ofLayers: { "layer 0": [5, 6], "layer 1": [5, 6] } },
  {
    name: "DeepSeek-V3, one of eight ranks",
    model: () => deepseekV3({ num_hidden_layers: 4, vocab_size: 129_280 }),
    ranks: 8,
    // Beside those of one rank (8, and 10 with experts): the sums of ranks are joined behind attention and
    // a dense block, a norm follows them, and ranks share the experts out.
    ofLayers: { "layer 0": [11, 11], "layer 1": [12, 12], "layer 3": [15, 15] },
  },
];

/** Why a launch may have fewer, and how many it has at least. */
const REASONS: readonly {
  readonly reason: string;
  readonly kernel: RegExp;
  readonly least: number;
  readonly near?: boolean;
}[] = [
  {
    reason:
      "one row of a few thousand numbers, once or twice a step, or once behind a sum of ranks",
    kernel: /^(embedding\/embedding|norm\/(add|final)_norm)$/,
    least: 1,
  },
  { reason: "reads the best of each workgroup of the output head", kernel: /argmax$/, least: 1 },
  {
    reason: "a row of 256 scores, of which 8 experts are sorted",
    kernel: /^moe\/route$/,
    least: 1,
  },
  {
    reason:
      "32 outputs of a workgroup are four rows of each of eight lanes, whose columns sixteen share out: as " +
      "many as keep a GPU busy where there are 4096 outputs. More would cut columns, whose sums another " +
      "launch had to add up",
    kernel: /^linear\/linear$/,
    least: 8,
  },
  {
    reason: "as above, of a rank's eighth of a block: each has gate and up of 64 outputs",
    kernel: /^linear\/gate_up$/,
    least: 18,
  },
  {
    reason: "as above, of 3,072 outputs and their norm",
    kernel: /^cache\/mla_project$/,
    least: 97,
  },
  {
    reason: "a workgroup merges the splits of a head once, for all values of it",
    kernel: /^linear\/merging_linear$/,
    least: 16,
  },
  {
    reason: "64 numbers of a row a workgroup, each added to seven others, or merged from splits",
    kernel: /^(linear\/join_sums|attention\/merge_splits)$/,
    least: 64,
  },
  {
    reason: "nine experts of a row with 512 outputs of a rank each",
    kernel: /^moe\/expert_gate_up$/,
    least: 144,
  },
  {
    reason:
      "each workgroup has one head and one split of keys. Splits are as long on every adapter, as they " +
      "decide bits: 2048 keys of latent attention, whose 16 heads on a rank fill no more",
    kernel: /^attention\/mla_decode$/,
    least: 16,
  },
  {
    reason: "32 heads of four splits of 256 keys",
    kernel: /^attention\/gqa_write_decode$/,
    least: 128,
    near: true,
  },
];

function opened({ model, ranks }: Launched): Promise<DescribedModel> {
  const engine = {
    ...{ contextLength: 8192, maxTotalTokens: 8192, deviceMemory: 2 ** 40, pageSize: 16 },
    maxRunningRequests: MANY,
  };
  return DescribedModel.open(syntheticSource(model(), 7), { adapter: ADAPTER, ranks, engine });
}

async function launchesOf(described: DescribedModel, requests: number, context: number) {
  const launches: Launch[] = [];
  const { beginPass } = StepNotes.prototype;
  const spy = vi.spyOn(StepNotes.prototype, "beginPass");
  spy.mockImplementation(function (this: StepNotes, encoder, launch) {
    const [x, y, z] = launch.grid;
    launches.push({ part: this.part, kernel: launch.kernel.name, workgroups: x * y * z });
    return beginPass.call(this, encoder, launch);
  });
  try {
    await described.decode(requests, context);
  } finally {
    spy.mockRestore();
  }
  return launches;
}

/** Requests whose heads fill a GPU together. */
const MANY = 64;
const NEAR = 1000;
const FAR = 4000;
const used = new Set<string>();

describe.each(MODELS)("a step of one request by $name", (given) => {
  let described: DescribedModel;
  beforeAll(async () => {
    described = await opened(given);
  });

  test.each([NEAR, FAR])(
    "has 192 workgroups in each launch, or a reason, behind %i tokens",
    async (context) => {
      const few = (await launchesOf(described, 1, context)).filter(
        (one) => one.workgroups < ENOUGH,
      );
      const without = few.filter(({ kernel, workgroups }) => {
        const why = REASONS.filter(({ kernel: names, least, near = false }) => {
          return names.test(kernel) && workgroups >= least && (!near || context === NEAR);
        });
        for (const { reason } of why) used.add(reason);
        return why.length === 0;
      });
      expect(without).toEqual([]);
    },
  );

  test("has as many launches a layer as are promised", async () => {
    for (const [i, context] of [100, FAR].entries()) {
      const launches = await launchesOf(described, 1, context);
      const counts = Object.keys(given.ofLayers).map((part) => [
        part,
        launches.filter((one) => one.part === part).length,
      ]);
      const wanted = Object.entries(given.ofLayers).map(([part, both]) => [part, both[i]]);
      expect(counts).toEqual(wanted);
    }
  });

  test("has heads together in attention once there are requests enough", async () => {
    const of = async (requests: number) => {
      const launches = await launchesOf(described, requests, NEAR);
      return launches.find(({ kernel }) => /^attention\/.*decode$/.test(kernel))!.workgroups;
    };
    // Four heads of a workgroup.
    expect((await of(MANY)) / (await of(1))).toBe(MANY / 4);
  });
});

test("each reason is one that a launch needs", () => {
  expect(REASONS.map(({ reason }) => reason).filter((reason) => !used.has(reason))).toEqual([]);
});
