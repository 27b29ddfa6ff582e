import { readFileSync } from "node:fs";
import { describe, expect, test } from "vitest";
import { InvalidRequestError } from "../../../src/errors.ts";
import {
  BALANCE_ALGORITHMS,
  balancedness,
  balanceExperts,
  type PlacementSizes,
} from "../../../src/parallel/experts/balance_experts.ts";
import { slotsOfExperts } from "../../../src/parallel/experts/expert_placement.ts";
import { seeded } from "../../support/seeded.ts";

interface SizedCase {
  readonly weight: number[][];
  readonly num_replicas: number;
  readonly num_groups: number | null;
  readonly num_nodes: number;
  readonly num_gpus: number;
}

interface PlacementCase extends SizedCase {
  readonly name: string;
  readonly policy: "hierarchical" | "global";
  readonly phy2log: number[][];
  readonly log2phy: number[][][];
  readonly logcnt: number[][];
  readonly layers: readonly {
    readonly balancedness: number;
    readonly balancedness_trivial: number;
    readonly balancedness_floor: number;
    readonly compare: string;
  }[];
}

const { cases, errors } = JSON.parse(
  readFileSync(new URL("./eplb_cases.json", import.meta.url), "utf8"),
) as {
  readonly cases: readonly PlacementCase[];
  readonly errors: readonly (SizedCase & { readonly note: string })[];
};

const sizesOf = (one: SizedCase): PlacementSizes => ({
  slots: one.num_replicas,
  ranks: one.num_gpus,
  nodes: one.num_nodes,
  groups: one.num_groups,
});

describe("placements of the published load balancer", () => {
  test.each(cases)("$name", (one) => {
    one.weight.forEach((loads, layer) => {
      const { slots, ranks } = sizesOf(one);
      const placement = balanceExperts([loads], sizesOf(one));
      // Ties are resolved as the published code does, so all cases are met, whatever they demand.
      expect(placement).toEqual(one.phy2log[layer]);
      const counts = slotsOfExperts(placement, loads.length).map(({ length }) => length);
      expect(counts).toEqual(one.logcnt[layer]);
      const { balancedness: even, balancedness_trivial: trivial } = one.layers[layer]!;
      expect(balancedness(loads, placement, ranks)).toBeCloseTo(even, 5);
      const first = Array.from({ length: slots }, (_, slot) => slot % loads.length);
      expect(balancedness(loads, first, ranks)).toBeCloseTo(trivial, 5);
    });
  });

  test.each(errors)("refuses it where $note", (one) => {
    expect(() => balanceExperts(one.weight, sizesOf(one))).toThrow(InvalidRequestError);
  });
});

/** Of experts of which few have most of the load. */
function skewedLoads(experts: number, random: () => number): number[] {
  return Array.from({ length: experts }, () => Math.floor(1000 * random() ** 6));
}

describe.each(BALANCE_ALGORITHMS)("%s", (algorithm) => {
  const random = seeded(BALANCE_ALGORITHMS.indexOf(algorithm) + 1);

  test("places every expert in as many slots as there are, groups on one node", () => {
    for (let i = 0; i < 60; i++) {
      const nodes = [1, 2, 4][i % 3]!;
      const groups = nodes * (1 + (i % 2));
      const experts = groups * (1 + Math.floor(random() * 6));
      const ranks = nodes * (1 + Math.floor(random() * 3));
      const slots = Math.ceil((experts * (1 + random())) / ranks / nodes) * ranks * nodes;
      const steps = Array.from({ length: 1 + (i % 4) }, () => skewedLoads(experts, random));
      const placement = balanceExperts(steps, { slots, ranks, nodes, groups }, algorithm);
      expect(placement).toHaveLength(slots);
      expect(new Set(placement)).toEqual(new Set(Array.from({ length: experts }, (_, e) => e)));
      if (algorithm === "deepseek" || algorithm === "deepseek_vec") continue;
      const nodeOfGroup = new Map<number, number>();
      placement.forEach((expert, slot) => {
        const group = Math.floor(expert / (experts / groups));
        const node = Math.floor(slot / (slots / nodes));
        expect(nodeOfGroup.get(group) ?? node).toBe(node);
        nodeOfGroup.set(group, node);
      });
    }
  });

  test("makes a skewed load more even", () => {
    // The same experts have most to do in all steps.
    const most = Array.from({ length: 32 }, (_, e) => (e % 8 === 0 ? 500 : 20));
    const steps = Array.from({ length: 4 }, () => most.map((load) => Math.floor(load * random())));
    const total = steps[0]!.map((_, e) => steps.reduce((sum, step) => sum + step[e]!, 0));
    const sizes = { slots: 40, ranks: 8, nodes: 1, groups: 4 };
    const placement = balanceExperts(steps, sizes, algorithm);
    const trivial = Array.from({ length: 40 }, (_, slot) => slot % 32);
    const before = balancedness(total, trivial, 8);
    expect(balancedness(total, placement, 8)).toBeGreaterThan(1.2 * before);
  });
});

test("copies by steps go where a step has its largest load, those by sums where the sum is", () => {
  // Expert 2 has the largest sum; expert 0 is what steps wait for.
  const steps = [
    [90, 1, 50, 1],
    [0, 1, 50, 1],
  ];
  const sizes = { slots: 5, ranks: 1, nodes: 1 };
  const copied = (algorithm: "deepseek" | "deepseek_vec") =>
    slotsOfExperts(balanceExperts(steps, sizes, algorithm), 4).findIndex(
      ({ length }) => length === 2,
    );
  expect(copied("deepseek")).toBe(2);
  expect(copied("deepseek_vec")).toBe(0);
});

test("groups that nodes cannot share are refused where they have to be", () => {
  const sizes = { slots: 12, ranks: 6, nodes: 3, groups: 4 };
  const loads = [skewedLoads(12, seeded(1))];
  expect(() => balanceExperts(loads, sizes, "deepseek_hierarchical")).toThrow(
    "Cannot place experts: 4 groups of experts cannot be shared out over 3 nodes",
  );
  expect(balanceExperts(loads, sizes, "auto")).toEqual(balanceExperts(loads, sizes, "deepseek"));
});

test("nothing chosen is perfectly even", () => {
  expect(balancedness([0, 0], [0, 1], 2)).toBe(1);
  expect(balancedness([3, 1], [0, 1], 2)).toBeCloseTo(2 / 3, 6);
});
