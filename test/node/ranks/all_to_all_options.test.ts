import { mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, expect, test } from "vitest";
import { parseOptions } from "../../../src/node/options/option_parser.ts";
import {
  allToAllSentence,
  MAX_DEEPEP_CONFIG_BYTES,
} from "../../../src/node/ranks/all_to_all_options.ts";
import {
  EXPERT_OPTIONS,
  expertOptions,
  expertWarnings,
} from "../../../src/node/ranks/expert_options.ts";
import { layoutOf } from "../../../src/parallel/experts/expert_options.ts";

const folder = mkdtempSync(join(tmpdir(), "wisp-deepep-"));
afterAll(() => rmSync(folder, { recursive: true }));

const DEEPEP = ["--moe-a2a-backend", "deepep"];
const parsed = (args: readonly string[], tpSize = 2) => ({
  ...parseOptions(EXPERT_OPTIONS, args).values,
  tpSize,
});
const SIZES = {
  normal_dispatch: {
    ...{ num_sms: 20, num_max_nvl_chunked_send_tokens: 6 },
    num_max_nvl_chunked_recv_tokens: 256,
  },
  normal_combine: {
    ...{ num_sms: 20, num_max_rdma_chunked_send_tokens: 12 },
    num_max_rdma_chunked_recv_tokens: 128,
  },
};

test("deepep has its mode, and a sentence about what goes over the wire", async () => {
  expect((await expertOptions(parsed([]))).allToAll).toBeUndefined();
  expect((await expertOptions(parsed(DEEPEP))).allToAll).toBe("auto");
  const args = [...DEEPEP, "--deepep-mode", "normal", "--ep-size", "2"];
  expect((await expertOptions(parsed(args))).allToAll).toBe("normal");
  expect(allToAllSentence(parsed(args))).toContain("deepep (normal), with f32 on the wire");
  expect([allToAllSentence(parsed(args, 1)), allToAllSentence(parsed([]))]).toEqual([
    undefined,
    undefined,
  ]);
});

test("what does less than its name says has a warning", async () => {
  const file = join(folder, "sizes.json");
  writeFileSync(file, JSON.stringify(SIZES));
  for (const config of [JSON.stringify(SIZES), file, "{}"]) {
    const options = parsed([...DEEPEP, "--deepep-config", config]);
    expect((await expertOptions(options)).allToAll).toBe("auto");
    expect(expertWarnings(options)).toEqual([
      expect.stringMatching(/^--deepep-config has no effect: /),
    ]);
  }
  expect(expertWarnings(parsed(DEEPEP))).toEqual([]);
  expect(expertWarnings(parsed(DEEPEP, 1))).toEqual([expect.stringContaining("--tp-size is 1")]);
});

const big = join(folder, "big.json");
writeFileSync(big, " ".repeat(MAX_DEEPEP_CONFIG_BYTES + 1));
const withSizes = (dispatch: object, combine: object = {}) =>
  JSON.stringify({ normal_dispatch: dispatch, normal_combine: combine });

test.each([
  [["--deepep-mode", "normal"], "--deepep-mode normal without --moe-a2a-backend deepep"],
  [["--deepep-config", "{}"], "--deepep-config {} without --moe-a2a-backend deepep"],
  [[...DEEPEP, "--ep-size", "4"], "one part for each of the 2 ranks of --tp-size"],
  ...(
    [
      ["nowhere.json", "no file: ENOENT"],
      [big, `over the limit of ${MAX_DEEPEP_CONFIG_BYTES}`],
      ["[1]", "it is no JSON object, and no file"],
      ["{", "it is no JSON"],
      ['{"dispatch": {}}', 'it has "dispatch", not normal_dispatch, normal_combine'],
      [withSizes({ sms: 20 }), 'normal_dispatch has "sms", not num_sms'],
      [withSizes({ num_sms: 1.5 }), "normal_dispatch.num_sms is no whole number above 0"],
      [withSizes({ num_sms: 20 }, { num_sms: 8 }), "num_sms of normal_dispatch and of"],
      [
        withSizes({ num_max_nvl_chunked_send_tokens: 8, num_max_nvl_chunked_recv_tokens: 8 }),
        "num_max_nvl_chunked_send_tokens is not less than",
      ],
      [
        withSizes({ num_max_rdma_chunked_send_tokens: 8, num_max_rdma_chunked_recv_tokens: 8 }),
        "num_max_rdma_chunked_recv_tokens is not twice",
      ],
    ] as const
  ).map(([config, state]) => [[...DEEPEP, "--deepep-config", config], state] as const),
] as const)("%j is refused", async (args, state) => {
  await expect(expertOptions(parsed(args))).rejects.toThrow(state);
});

test("experts are shared out over all ranks, or it is refused", () => {
  const model = { layers: 2, routed: 8, groups: 1 };
  const layout = (size: number, redundant = 0, given: object = {}) =>
    layoutOf({ allToAll: "auto", redundant, ...given }, model, { size });
  expect(layout(4)!.runs).toBe(4);
  expect(layout(3, 1)!.runs).toBe(3);
  expect(() => layout(3)).toThrow("8 slots cannot be cut in 3 parts");
  expect(() => layout(4, 0, { parallelSize: 2 })).toThrow("each of the 4 ranks has a part");
  expect(() => layoutOf({ allToAll: "normal" }, undefined, { size: 2 })).toThrow(
    expect.objectContaining({ field: "experts.allToAll" }),
  );
  expect(() => layout(2, 0, { allToAll: "slow" })).toThrow("it must be auto, normal, low_latency");
});
