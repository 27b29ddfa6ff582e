import { expect, test } from "vitest";
import { ListedModules } from "../../../src/engine/load/listed_modules.ts";

const MLP = "model.layers.12.mlp.gate_proj";

test("modules are found by their names, parts of them and patterns of their begin", () => {
  const has = (listed: string[]) => new ListedModules(listed).has(`${MLP}.weight`);
  for (const one of [
    MLP,
    "mlp.gate_proj",
    "mlp",
    "layers.12",
    "re:.*mlp",
    "re:model\\.layers\\.1",
    "re:(?=model)",
  ]) {
    expect([one, has([one])]).toEqual([one, true]);
  }
  for (const one of ["gate", "layers.1", "weight", "", "re:mlp", "re:(m)\\1", "re:("]) {
    expect([one, has([one])]).toEqual([one, false]);
  }
  expect(has(["lm_head", "re:.*lm_head", "re:.*12.*gate"])).toBe(true);
});

test("a pattern that a backtracking matcher would not finish is answered", () => {
  const listed = new ListedModules(["re:(.+)+X", "re:(a|a)*b", `re:${"(.*)".repeat(50)}X`]);
  expect(listed.has(`${`${MLP}.`.repeat(20)}weight`)).toBe(false);
});

test("lists and patterns of any length cost a name the same", () => {
  const names = Array.from({ length: 100_000 }, (_, i) => `model.layers.${i}.self_attn`);
  const listed = new ListedModules([...names, "re:".padEnd(100_000, "a")]);
  expect(listed.has("model.layers.99999.self_attn.q_proj.weight")).toBe(true);
  expect(listed.has("model.layers.100000.self_attn.q_proj.weight")).toBe(false);
});
