/** Faults that make a row's bits depend on other rows are found on the model that is loaded. */
import { expect, test, vi } from "vitest";
import { Checkpoint } from "../../../src/checkpoint/checkpoint.ts";
import type { WeightSource } from "../../../src/checkpoint/source.ts";
import { loadModel } from "../../../src/engine/load/load.ts";
import type { LoadOptions } from "../../../src/engine/load/load_options.ts";
import { PLAIN_TUNING, type RowForm } from "../../../src/gpu/tuning.ts";
import { EMBEDDED_MODEL } from "../../support/checkpoints/embedded_model.ts";
import { folderSource } from "../../support/checkpoints/folder_source.ts";
import { randomGqa } from "../../support/checkpoints/random_gqa.ts";
import { device, smallestCaseOnly } from "../../support/devices/gpu.ts";

const FORMS: readonly RowForm[] = [
  { tokens: 1, split: 1, workgroup: 8, cost: 1 },
  { tokens: 2, split: 1, workgroup: 8, cost: 1.5 },
  // Small matrices have no form of two rows: two take this one.
  { tokens: 4, split: 1, workgroup: 8, cost: 1.9 },
  { tokens: 32, split: 1, workgroup: 128, staged: true, cost: 7 },
];
const FOLDED = {
  tuning: { ...PLAIN_TUNING, rowForms: FORMS, findsBest: true, foldsNorms: true },
};

interface Fault {
  readonly kernel: string;
  readonly from: string;
  readonly to: string;
}

async function load(source: WeightSource, fault?: Fault, options: Partial<LoadOptions> = {}) {
  const createShaderModule = device.createShaderModule.bind(device);
  let planted = fault === undefined;
  const spy = vi.spyOn(device, "createShaderModule").mockImplementation((descriptor) => {
    const { label, code } = descriptor;
    if (fault === undefined || label !== fault.kernel || !code.includes(fault.from)) {
      return createShaderModule(descriptor);
    }
    planted = true;
    return createShaderModule({ ...descriptor, code: code.replaceAll(fault.from, fault.to) });
  });
  try {
    const checkpoint = await Checkpoint.open(source);
    return await loadModel(checkpoint, { device, maxTotalTokens: 1024, ...options });
  } finally {
    spy.mockRestore();
    expect(planted, "the text to replace is not there").toBe(true);
  }
}

const SUM = "(chains.x + chains.y) + (chains.z + chains.w)";
const otherSum = (when: string) =>
  `select((chains.x + chains.z) + (chains.y + chains.w), ${SUM}, ${when})`;

const deepseek = () => folderSource(EMBEDDED_MODEL);
const qwen = () => randomGqa({ family: "qwen2" });

const FAULTS: readonly (readonly [what: string, () => WeightSource, Fault])[] = [
  [
    "a token beside a longer sequence",
    qwen,
    {
      kernel: "attention/merge_splits",
      from: "return whole.acc / ",
      to: "return 1.0001 * whole.acc / ",
    },
  ],
  [
    "a token of a longer sequence alone",
    qwen,
    { kernel: "linear/gate_up", from: SUM, to: otherSum("TOKENS == 4u") },
  ],
  [
    "a prompt's last token apart",
    deepseek,
    { kernel: "moe/expert_combine", from: SUM, to: otherSum("SORTED") },
  ],
  [
    "the best of 1 tokens alone",
    deepseek,
    { kernel: "linear/linear", from: "params.out_column + output[i])", to: "output[i] / 2u)" },
  ],
  [
    "a token beside its last",
    qwen,
    {
      // Of the rows here only those write and read in launches apart.
      ...{ kernel: "attention/gqa_decode", from: "sums[i] * params.scale" },
      to: "sums[i] * (1.001 * params.scale)",
    },
  ],
  ["a token among 2", qwen, { kernel: "linear/gate_up", from: SUM, to: otherSum("TOKENS == 4u") }],
  [
    "a prompt's last token apart",
    qwen,
    { kernel: "linear/gate_up", from: SUM, to: otherSum("TOKEN_LANES == 8u") },
  ],
  [
    "a token as a prompt's last",
    qwen,
    {
      kernel: "attention/gqa_prefill",
      from: "sums[i] * params.scale",
      to: "sums[i] * (1.001 * params.scale)",
    },
  ],
];

test.each(smallestCaseOnly ? FAULTS.slice(5) : FAULTS)(
  "loading finds that the bits of %s are others",
  async (what, source, fault) => {
    const { selfTest, figures, destroy } = await load(source(), fault, FOLDED);
    expect(selfTest.failures).toContainEqual(expect.stringContaining(what));
    expect(selfTest.batchInvariant).toBe(false);
    expect(figures.batchInvariant).toBe(false);
    destroy();
    const promised = load(source(), fault, { ...FOLDED, deterministicInference: true });
    await expect(promised).rejects.toThrow(
      /^Cannot promise deterministic inference on this adapter: .*the (bits|ids) differ/,
    );
  },
);

test.each([
  ["latent attention", deepseek, {}],
  ["latent attention, folded", deepseek, { tuning: { ...PLAIN_TUNING, foldsNorms: true } }],
  ["latent attention in one form", deepseek, { deterministicInference: true, pageSize: 16 }],
  ["grouped queries, experts", () => randomGqa({ family: "qwen3Moe" }), {}],
  ["windows, sinks, biases, MXFP4", () => randomGqa({ family: "gptOss" }), { pageSize: 4 }],
  ["the smallest sizes", qwen, { maxTotalTokens: 2, contextLength: 2, maxRunningRequests: 1 }],
  ["one row a step", qwen, { maxRowsPerStep: 1 }],
] as const)("a right adapter keeps its promise: %s", async (_, source, options) => {
  const { selfTest, destroy } = await load(source(), undefined, options);
  expect(selfTest.failures).toEqual([]);
  expect(selfTest.batchInvariant).toBe(true);
  destroy();
});
