import { expect, test } from "vitest";
import { environmentWarnings } from "../../../src/node/options/environment.ts";

test.each([
  ["SVC_HACK_DEEPEP_NUM_SMS", "experts are not exchanged over a network"],
  ["SVC_HACK_DEEPEP_NEW_MODE", "experts are not exchanged over a network"],
  ["SVC_SET_CPU_AFFINITY", "use taskset or numactl"],
  ["SVC_SOMETHING_NEW", "it is not known"],
  ["NCCL_IB_HCA", "not joined by a network yet"],
  ["NVSHMEM_IB_TRAFFIC_CLASS", "not joined by a network yet"],
])("environmentWarnings() says that %s has no effect", (name, why) => {
  const warnings = environmentWarnings({ [name]: "1" });
  expect(warnings).toHaveLength(1);
  expect(warnings[0]).toContain(`the variable ${name} has no effect here: `);
  expect(warnings[0]).toContain(why);
  expect(warnings[0]).not.toContain("\n");
});

test("environmentWarnings() says nothing of variables that work, are unset or are not ours", () => {
  const read = { SVC_CHUNKED_PREFIX_CACHE_THRESHOLD: "0", SVC_ENABLE_JIT_DEEPGEMM: "0" };
  const env = { ...read, SVC_X: undefined, PATH: "/bin" };
  expect(environmentWarnings(env)).toEqual([]);
});
