import { describe, expect, test } from "vitest";
import { type GqaLaunchFacts, gqaLaunches } from "../../src/layers/launches/gqa_launches.ts";
import {
  contextRounding,
  type MlaLaunchFacts,
  mlaLaunches,
  projectsAtOnce,
} from "../../src/layers/launches/mla_launches.ts";
import { mlpLaunches } from "../../src/layers/launches/mlp_launches.ts";
import {
  combines,
  type MoeLaunchFacts,
  mayCombine,
  moeLaunches,
  tileSize,
} from "../../src/layers/launches/moe_launches.ts";
import {
  addsOutputs,
  bindsAdding,
  type OutputLaunchFacts,
  outputLaunches,
} from "../../src/layers/launches/output_launches.ts";
import { namesIn, STEPS, type StepKind } from "../support/launch_names.ts";

const words = (text: string) => text.split(" ").filter((word) => word !== "");
const always = () => true;

describe("grouped-query attention", () => {
  const plain: GqaLaunchFacts = { writesAndAttends: false, rounding: "none", takesTrees: false };
  const folded = { ...plain, writesAndAttends: true };
  const rounded = { ...folded, rounding: "inKernel" } as const;
  const apart = { ...plain, rounding: "apart" } as const;
  const trees = { ...rounded, takesTrees: true } as const;

  test.each<[string, GqaLaunchFacts, StepKind, string]>([
    ["plain", plain, "one", "project write attend"],
    ["plain", plain, "far", "project write attend"],
    ["plain", plain, "several", "project write attend"],
    ["plain", plain, "prompt", "project write attendPrompts"],
    ["plain", plain, "mixed", "project write attend attendPrompts"],
    ["folded", folded, "one", "project writeAndAttend"],
    ["folded", folded, "few", "project writeAndAttend"],
    ["folded", folded, "several", "project write attend"],
    ["folded", folded, "mixed", "project write attend attendPrompts"],
    ["rounded", rounded, "one", "project writeAndAttend round"],
    // The launch that merges splits rounds.
    ["rounded", rounded, "far", "project writeAndAttend"],
    ["rounded", rounded, "prompt", "project write attendPrompts round"],
    ["rounded", rounded, "mixed", "project write attend attendPrompts round"],
    ["rounded apart", apart, "far", "project write attend round"],
    ["with trees", trees, "one", "project writeAndAttend round"],
    ["with trees", trees, "several", "project write attend round"],
    ["with trees", trees, "tree", "project write attendTrees round"],
  ])("%s (%o): %s: %s", (_, facts, step, names) => {
    expect(namesIn(gqaLaunches(facts), STEPS[step])).toEqual(words(names));
  });

  test("binds nothing that no step takes", () => {
    const names = (facts: GqaLaunchFacts) => gqaLaunches(facts).map(({ name }) => name);
    expect(names(plain)).toEqual(words("project write attend attendPrompts"));
    expect(names(rounded)).toEqual(
      words("project writeAndAttend write attend attendPrompts round"),
    );
  });
});

describe("latent attention", () => {
  const whole: MlaLaunchFacts = {
    queryRounding: undefined,
    projectPays: undefined,
    mergesValues: false,
    takesPrompts: true,
    takesTrees: false,
    contextRounding: "none",
  };
  const latent: MlaLaunchFacts = { ...whole, queryRounding: "none" };
  const atOnce: MlaLaunchFacts = {
    ...latent,
    projectPays: (rows) => rows <= 4,
    mergesValues: true,
  };
  const rounded = { ...atOnce, queryRounding: "inKernel", contextRounding: "prompts" } as const;
  const apart = { ...latent, queryRounding: "apart", contextRounding: "all" } as const;
  const trees = { ...atOnce, takesTrees: true };

  test.each<[string, MlaLaunchFacts, StepKind, string]>([
    ["queries in one step", whole, "one", "projectFirst normAndWrite absorb attend makeValues"],
    ["queries in one step", whole, "prompt", "projectFirst normAndWrite attendPrompts"],
    [
      "queries through a latent",
      latent,
      "one",
      "projectFirst normAndWrite projectQuery absorb attend makeValues",
    ],
    [
      "queries through a latent",
      latent,
      "mixed",
      "projectFirst normAndWrite projectQuery absorb attend makeValues attendPrompts",
    ],
    [
      "projected at once",
      atOnce,
      "few",
      "projectFirst normProjectAndWrite absorb attend mergeToValues",
    ],
    [
      "projected at once where that does not pay",
      atOnce,
      "many",
      "projectFirst normAndWrite projectQuery absorb attend mergeToValues",
    ],
    [
      "projected at once beside prompts",
      atOnce,
      "mixed",
      "projectFirst normAndWrite projectQuery absorb attend mergeToValues attendPrompts",
    ],
    [
      "rounded by the kernels that make them",
      rounded,
      "one",
      "projectFirst normProjectAndWrite absorb attend mergeToValues",
    ],
    [
      "rounded by the kernels that make them",
      rounded,
      "mixed",
      "projectFirst normAndWrite projectQuery absorb attend mergeToValues attendPrompts round",
    ],
    [
      "rounded apart",
      apart,
      "one",
      "projectFirst normAndWrite roundQueryLatent projectQuery absorb attend makeValues round",
    ],
    [
      "rounded apart",
      apart,
      "prompt",
      "projectFirst normAndWrite roundQueryLatent projectQuery attendPrompts round",
    ],
    ["with trees", trees, "one", "projectFirst normProjectAndWrite absorb attend mergeToValues"],
    [
      "with trees",
      trees,
      "tree",
      "projectFirst normProjectAndWrite absorb attendTrees mergeToValues",
    ],
  ])("%s (%o): %s: %s", (_, facts, step, names) => {
    expect(namesIn(mlaLaunches(facts), STEPS[step])).toEqual(words(names));
  });

  test("binds nothing of prompts where there are none", () => {
    const list = mlaLaunches({ ...whole, takesPrompts: false });
    expect(list.map(({ name }) => name)).not.toContain("attendPrompts");
  });

  test("one launch is bound for all behind the first projections where it can do that", () => {
    const query = {
      rounding: "none",
      isWhole: true,
      fits: true,
      latent: 512,
      matrices: "prompts",
    } as const;
    expect(projectsAtOnce(query)).toBe(true);
    expect(projectsAtOnce({ ...query, rounding: "inKernel" })).toBe(true);
    for (const other of [
      { rounding: "apart" },
      { isWhole: false },
      { fits: false },
      { latent: 510 },
      { matrices: "all" },
    ] as const) {
      expect(projectsAtOnce({ ...query, ...other })).toBe(false);
    }
  });

  test("the launch that makes values rounds them where its groups are whole", () => {
    const e4m3 = { format: "e4m3", group: "block" } as const;
    const int8 = { format: "int8", group: "row" } as const;
    const shape = { value: 128, lanes: 8, matrices: "none" } as const;
    expect(contextRounding(undefined, { dtype: "fp8" }, shape)).toBe("none");
    expect(contextRounding(e4m3, { dtype: "bf16" }, shape)).toBe("none");
    expect(contextRounding(e4m3, { dtype: "fp8" }, shape)).toBe("prompts");
    expect(contextRounding(e4m3, { dtype: "fp8" }, { ...shape, value: 12 })).toBe("all");
    expect(contextRounding(e4m3, { dtype: "fp8" }, { ...shape, matrices: "all" })).toBe("all");
    expect(contextRounding(int8, { dtype: "int8" }, shape)).toBe("all");
  });
});

test.each([
  ["none", "gateUp"],
  ["inKernel", "gateUp"],
  ["apart", "gateUp round"],
] as const)("a dense block whose intermediates are rounded %s: %s", (rounding, names) => {
  expect(namesIn(mlpLaunches({ rounding }), STEPS.one)).toEqual(words(names));
});

describe("the linear at the end of a block", () => {
  const writes: OutputLaunchFacts = { adding: undefined, matrices: "none" };
  const adds: OutputLaunchFacts = { adding: { addsAll: true, adds: always }, matrices: "none" };
  const some: OutputLaunchFacts = {
    adding: { addsAll: false, adds: (rows) => rows < 32 },
    matrices: "none",
  };
  const beside: OutputLaunchFacts = { ...adds, matrices: "prompts" };

  test.each<[string, OutputLaunchFacts, StepKind, string]>([
    ["writes", writes, "one", "writeOutputs"],
    ["adds always", adds, "one", "addOutputs"],
    ["adds always", adds, "mixed", "addOutputs"],
    ["adds some", some, "few", "addOutputs"],
    ["adds some", some, "many", "writeOutputs"],
    ["beside matrices", beside, "many", "addOutputs"],
    ["beside matrices", beside, "mixed", "writeOutputs"],
  ])("%s (%o): %s: %s", (_, facts, step, name) => {
    expect(namesIn(outputLaunches(facts), STEPS[step])).toEqual([name]);
    expect(addsOutputs(facts, STEPS[step])).toBe(name === "addOutputs");
  });

  test("binds no launch that writes where all steps add", () => {
    expect(outputLaunches(adds).map(({ name }) => name)).toEqual(["addOutputs"]);
    expect(outputLaunches(beside).map(({ name }) => name)).toEqual(["addOutputs", "writeOutputs"]);
  });

  test("binds a launch that adds for whole weights of plain rows", () => {
    const output = { mayAdd: true, isWhole: true, isCoded: false, matrices: "prompts" } as const;
    expect(bindsAdding(output)).toBe(true);
    for (const other of [
      { mayAdd: false },
      { isWhole: false },
      { isCoded: true },
      { matrices: "all" },
    ] as const) {
      expect(bindsAdding({ ...output, ...other })).toBe(false);
    }
  });
});

describe("a mixture of experts", () => {
  const never = {
    byPair: false,
    byTile: false,
    stages: false,
    sharesColumns: false,
    hasMatrices: false,
  };
  /** Eight pairs of a row, 32 experts: of eight rows and fewer an expert has two at most. */
  const plain: MoeLaunchFacts = {
    slots: 8,
    expertCount: 32,
    matrices: "none",
    rounding: "none",
    sizes: [
      { tokens: 4, cost: 1 },
      { tokens: 16, cost: 2 },
    ],
    mostSorted: 40,
    combining: never,
    skips: false,
  };
  const combined = { ...never, byPair: true, byTile: true };
  const folded = { ...plain, combining: combined };
  const staged = { ...plain, combining: { ...combined, stages: true } };
  const unsorted = { ...plain, combining: { ...combined, byTile: false } };
  const beside = {
    ...plain,
    matrices: "prompts",
    combining: { ...combined, hasMatrices: true },
  } as const;
  const matrices = { ...plain, matrices: "all", rounding: "apart" } as const;
  /** An expert has two thirds of a pair of two rows, and one and a third of four. */
  const small = { ...folded, slots: 3, expertCount: 9 };
  const skipping = { ...small, skips: true };

  test.each<[string, MoeLaunchFacts, StepKind, string, number | undefined]>([
    ["plain", plain, "one", "score choose gateUp down", undefined],
    ["plain", plain, "prompt", "score chooseAndSort gateUp down", 16],
    ["plain", plain, "many", "score choose sort gateUp down", 16],
    [
      "rounded",
      { ...plain, rounding: "apart" },
      "one",
      "score choose gateUp round down",
      undefined,
    ],
    ["rounded", { ...plain, rounding: "inKernel" }, "one", "score choose gateUp down", undefined],
    [
      "with no room to sort at once",
      { ...plain, mostSorted: 0 },
      "prompt",
      "score choose sort gateUp down",
      16,
    ],
    ["folded", folded, "one", "score choose gateUp combineByPair", undefined],
    ["folded", folded, "prompt", "score chooseAndSort gateUp combineByTile", 4],
    ["folded", folded, "many", "score choose sort gateUp combineByTile", 4],
    ["few experts", small, "few", "score choose gateUp combineByPair", undefined],
    ["skipping", skipping, "several", "score choose gateUp combineByPair", undefined],
    ["skipping", skipping, "few", "score chooseAndSort gateUp combineByTile", 4],
    ["in staged tiles", staged, "one", "score choose gateUp combineByPair", undefined],
    ["in staged tiles", staged, "many", "score choose sort gateUp combineByTile", 4],
    ["in staged tiles", staged, "prompt", "score chooseAndSort gateUp down", 16],
    ["combined by pair", unsorted, "one", "score choose gateUp combineByPair", undefined],
    ["combined by pair", unsorted, "many", "score choose sort gateUp down", 16],
    ["prompts by matrices", beside, "one", "score choose gateUp combineByPair", undefined],
    ["prompts by matrices", beside, "many", "score choose sort gateUp combineByTile", 4],
    ["prompts by matrices", beside, "prompt", "score choose matrixExperts", undefined],
    ["prompts by matrices", beside, "mixed", "score choose gateUp down matrixExperts", undefined],
    ["all by matrices", matrices, "one", "score choose matrixExperts", undefined],
    ["all by matrices", matrices, "many", "score choose matrixExperts", undefined],
  ])("%s (%o): %s: %s, tiles of %s", (_, facts, step, names, size) => {
    expect(namesIn(moeLaunches(facts), STEPS[step])).toEqual(words(names));
    expect(tileSize(facts, STEPS[step])).toBe(size);
    expect(combines(facts, STEPS[step])).toBe(names.includes("combine"));
  });

  test("binds no second half where all steps combine", () => {
    const bound = (facts: MoeLaunchFacts) => moeLaunches(facts).map(({ name }) => name);
    expect(bound(folded)).not.toContain("down");
    for (const facts of [
      plain,
      staged,
      unsorted,
      beside,
      { ...folded, combining: { ...combined, sharesColumns: true } },
    ]) {
      expect(bound(facts)).toContain("down");
    }
  });

  test("binds launches that combine for experts that are whole", () => {
    const moe = { mayAdd: true, isWhole: true, isCoded: false, matrices: "prompts" } as const;
    expect(mayCombine(moe)).toBe(true);
    for (const other of [
      { mayAdd: false },
      { isWhole: false },
      { isCoded: true },
      { matrices: "all" },
    ] as const) {
      expect(mayCombine({ ...moe, ...other })).toBe(false);
    }
  });
});
