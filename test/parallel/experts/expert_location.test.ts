import { describe, expect, test } from "vitest";
import { dispatchTables } from "../../../src/parallel/experts/dispatch_tables.ts";
import { placeExperts } from "../../../src/parallel/experts/expert_location.ts";
import { trivialPlacement } from "../../../src/parallel/experts/expert_placement.ts";
import { orderMoves } from "../../../src/parallel/experts/order_moves.ts";
import { seeded } from "../../support/seeded.ts";

const SIZES = {
  layers: 2,
  experts: 4,
  slots: 6,
  ranks: 2,
  nodes: 1,
  groups: 1,
  algorithm: "auto",
} as const;

describe("placeExperts", () => {
  test("trivial: copies are of the first experts", () => {
    expect(placeExperts("trivial", SIZES)).toEqual([
      [0, 1, 2, 3, 0, 1],
      [0, 1, 2, 3, 0, 1],
    ]);
  });

  test("a map is used as it is", () => {
    const map = [
      [3, 2, 1, 0, 3, 3],
      [0, 0, 1, 1, 2, 3],
    ];
    expect(placeExperts({ physical_to_logical_map: map }, SIZES)).toEqual(map);
  });

  test("of counts the load is balanced; those of several steps add up", () => {
    const counts = [
      [9, 1, 1, 1],
      [1, 1, 1, 9],
    ];
    const placed = placeExperts({ logical_count: counts, rank: 0 }, SIZES);
    expect(placed[0]!.filter((expert) => expert === 0)).toHaveLength(3);
    expect(placed[1]!.filter((expert) => expert === 3)).toHaveLength(3);
    const halves = counts.map((layer) => layer.map((count) => count / 2));
    expect(placeExperts({ logical_count: [halves, halves] }, SIZES)).toEqual(placed);
  });

  const map = [
    [0, 1, 2, 3, 0, 1],
    [0, 1, 2, 3, 0, 1],
  ];
  test.each([
    [{ physical_to_logical_map: map.slice(1) }, "it has 1 layers, the model has 2"],
    [{ physical_to_logical_map: [map[0], [0, 1]] }, "layer 1 has 2 slots, there are 6"],
    [
      { physical_to_logical_map: [map[0], [0, 1, 2, 4, 0, 1]] },
      "layer 1 has expert 4, there are 0 to 3",
    ],
    [
      { physical_to_logical_map: [map[0], [0, 1, 2, 1.5, 0, 1]] },
      "layer 1 has expert 1.5, there are 0 to 3",
    ],
    [{ physical_to_logical_map: [[0, 1, 2, 2, 0, 1], map[1]] }, "layer 0 has no slot for expert 3"],
    [
      { physical_to_logical_map: map, logical_count: map },
      "it has both physical_to_logical_map and logical_count",
    ],
    [{}, "it has neither physical_to_logical_map nor logical_count"],
    [{ logical_count: "x" }, "logical_count is no list"],
    [{ logical_count: [["x"]] }, "logical_count is no list of lists of numbers"],
    [{ logical_count: [[1, 2, 3, 4]] }, "logical_count has 1 layers, the model has 2"],
    [{ logical_count: [[1, 2, 3, 4], [1]] }, "logical_count of layer 1 has 1 experts, not 4"],
    [
      {
        logical_count: [
          [1, 2, 3, 4],
          [1, 2, 3, -4],
        ],
      },
      "logical_count of layer 1 has a count that is none",
    ],
  ])("refuses %j", (location, message) => {
    expect(() => placeExperts(location, SIZES)).toThrow(message);
  });
});

/** Placements in which every expert has a slot. */
function randomPlacement(experts: number, slots: number, random: () => number): number[] {
  const placed = Array.from({ length: slots }, (_, slot) =>
    slot < experts ? slot : Math.floor(random() * experts),
  );
  for (let i = slots - 1; i > 0; i--) {
    const j = Math.floor(random() * (i + 1));
    [placed[i], placed[j]] = [placed[j]!, placed[i]!];
  }
  return placed;
}

describe("dispatchTables", () => {
  test("without copies there is one table", () => {
    const placement = [3, 1, 0, 2];
    const sizes = { experts: 4, ranks: 2, layer: 0 };
    for (const algorithm of ["static", "dynamic", "fake"] as const) {
      const { count, slots } = dispatchTables(placement, sizes, algorithm);
      expect({ count, slots: [...slots] }).toEqual({ count: 1, slots: [2, 1, 3, 0] });
    }
  });

  test("static: a rank's own slot, else slots that the ranks without one share evenly", () => {
    const random = seeded(7);
    for (let i = 0; i < 100; i++) {
      const [experts, ranks] = [8, 4];
      const placement = randomPlacement(experts, 16, random);
      const { count, slots } = dispatchTables(placement, { experts, ranks, layer: i }, "static");
      expect(count).toBe(ranks);
      for (let expert = 0; expert < experts; expert++) {
        const shared = new Map<number, number>();
        for (let rank = 0; rank < ranks; rank++) {
          const slot = slots[rank * experts + expert]!;
          expect(placement[slot]).toBe(expert);
          const own = placement.findIndex((e, at) => e === expert && Math.floor(at / 4) === rank);
          if (own !== -1) expect(slot).toBe(own);
          else shared.set(slot, (shared.get(slot) ?? 0) + 1);
        }
        const all = placement.flatMap((e, at) => (e === expert ? [shared.get(at) ?? 0] : []));
        if (shared.size > 0) expect(Math.max(...all) - Math.min(...all)).toBeLessThanOrEqual(1);
      }
    }
  });

  test("dynamic: every slot of an expert is in as many tables as the next but for one", () => {
    const placement = [0, 1, 2, 0, 1, 0];
    const { count, slots } = dispatchTables(
      placement,
      { experts: 3, ranks: 2, layer: 1 },
      "dynamic",
    );
    const uses = placement.map(
      (expert, slot) =>
        Array.from({ length: count }, (_, t) => slots[t * 3 + expert]).filter((s) => s === slot)
          .length,
    );
    expect(uses[2]).toBe(count);
    for (const slot of [0, 3, 5]) expect([21, 22]).toContain(uses[slot]);
    for (const slot of [1, 4]) expect(uses[slot]).toBe(count / 2);
  });
});

describe("orderMoves", () => {
  test("slots come to hold what they should, and nothing is read after it was overwritten", () => {
    const random = seeded(3);
    for (let i = 0; i < 400; i++) {
      const experts = 1 + Math.floor(random() * 12);
      const each = 1 + Math.floor(random() * 4);
      const slots = each * (Math.ceil(experts / each) + Math.floor(random() * 3));
      const before = randomPlacement(experts, slots, random);
      const after = randomPlacement(experts, slots, random);
      const now = [...before];
      let spare: number | undefined;
      const written = new Set<number>();
      for (const { expert, from, to } of orderMoves(before, after, each)) {
        expect(from === "spare" ? spare : now[from]).toBe(expert);
        if (to === "spare") spare = expert;
        else {
          expect(before[to]).not.toBe(after[to]);
          expect(written.has(to)).toBe(false);
          written.add(to);
          now[to] = expert;
        }
      }
      expect(now).toEqual(after);
    }
  });

  test("what is there already stays, and a rank reads its own slots first", () => {
    expect(orderMoves([0, 1, 2, 3], [0, 1, 2, 3], 2)).toEqual([]);
    expect(orderMoves([0, 1, 2, 0, 1, 2], [0, 1, 2, 0, 0, 2], 3)).toEqual([
      { expert: 0, from: 3, to: 4 },
    ]);
  });

  test("a circle takes the spare once", () => {
    expect(orderMoves([0, 1, 2], [1, 2, 0], 1)).toEqual([
      { expert: 0, from: 0, to: "spare" },
      { expert: 1, from: 1, to: 0 },
      { expert: 2, from: 2, to: 1 },
      { expert: 0, from: "spare", to: 2 },
    ]);
  });
});

test("trivial placements have one list for all layers", () => {
  const [first, second] = trivialPlacement({ layers: 2, experts: 2, slots: 3 });
  expect(first).toBe(second);
});
