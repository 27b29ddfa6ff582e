import { expect, test } from "vitest";
import { environmentWarnings } from "../../../src/node/options/environment.ts";

test.each([
  ["SVC_HACK_DEEPEP_NUM_SMS", "results are exchanged by the processor"],
  ["SVC_HACK_DEEPEP_NEW_MODE", "results are exchanged by the processor"],
  ["SGLANG_DEEPEP_NUM_MAX_DISPATCH_TOKENS_PER_RANK", "--deepep-mode chooses between their forms"],
  ["SGLANG_EXPERT_DISTRIBUTION_RECORDER_DIR", "use --expert-distribution-recorder-dir"],
  ["SGLANG_EXPERT_LOCATION_UPDATER_CANARY", "ranks compare what they draw"],
  ["SVC_SET_CPU_AFFINITY", "it is for ranks that are processes, as --nnodes makes them"],
  ["SVC_SOMETHING_NEW", "it is not known"],
  ["NCCL_IB_HCA", "it is for ranks that are processes"],
  ["NCCL_IB_GID_INDEX", "ranks send through UCX"],
  ["NVSHMEM_IB_TRAFFIC_CLASS", "ranks send through MPI"],
])("environmentWarnings() says that %s has no effect", (name, why) => {
  const warnings = environmentWarnings({ [name]: "1" }, "none");
  expect(warnings).toHaveLength(1);
  expect(warnings[0]).toContain(`the variable ${name} has no effect here: `);
  expect(warnings[0]).toContain(why);
  expect(warnings[0]).not.toContain("\n");
});

test("environmentWarnings() says nothing of variables that work, are unset or are not ours", () => {
  const read = { SVC_CHUNKED_PREFIX_CACHE_THRESHOLD: "0", SVC_ENABLE_JIT_DEEPGEMM: "0" };
  const env = { ...read, SVC_X: undefined, PATH: "/bin" };
  expect(environmentWarnings(env, "none")).toEqual([]);
});

test("environmentWarnings() of ranks that are processes names what ranks cannot use", () => {
  const warn = (env: Record<string, string>) => environmentWarnings(env, "ours");
  expect(warn({ SVC_SET_CPU_AFFINITY: "true" })).toEqual([]);
  expect(() => warn({ SVC_SET_CPU_AFFINITY: "some" })).toThrow(
    "Cannot use SVC_SET_CPU_AFFINITY some: it must be true or false",
  );
  expect(warn({ NCCL_IB_HCA: "^mlx5_1" })[0]).toContain("name the others in UCX_NET_DEVICES");
  expect(warn({ NCCL_IB_HCA: "mlx5", UCX_NET_DEVICES: "eth0" })[0]).toContain("says the same");
  expect(warn({ NCCL_IB_HCA: "no_such_device" })[0]).toContain("no such device of InfiniBand");
});

test("environmentWarnings() of ranks that another launcher has started leaves their CPUs to it", () => {
  const warn = (env: Record<string, string>) => environmentWarnings(env, "outer");
  expect(warn({ SVC_SET_CPU_AFFINITY: "true" })).toEqual([
    expect.stringContaining(
      "SVC_SET_CPU_AFFINITY has no effect here: the launcher that has started",
    ),
  ]);
  expect(warn({ SVC_SET_CPU_AFFINITY: "false" })).toEqual([]);
  expect(() => warn({ SVC_SET_CPU_AFFINITY: "some" })).toThrow("it must be true or false");
  expect(warn({ NCCL_IB_HCA: "no_such_device" })[0]).toContain("no such device of InfiniBand");
});
