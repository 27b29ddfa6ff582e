/**
 * Tests of the options of experts, of which servers have many.
 *
 * @module
 */
import { expect } from "vitest";
import { adapterName, type ServingWisp, serveWisp } from "./wisp.ts";

/** @param second Of `secondArguments`. */
export function expertTests(
  second: () => ServingWisp,
  refusedAtStart: (...args: readonly string[]) => Promise<void>,
) {
  const echoed = async (name: string, value: unknown) => {
    const info = await (await second().get("/get_server_info")).json();
    expect((info as Readonly<Record<string, unknown>>)[name]).toEqual(value);
  };
  return {
    moeDenseTpSize: () => echoed("moe_dense_tp_size", 1),
    twoBatchOverlap: async () => {
      await echoed("enable_two_batch_overlap", true);
      const sampling_params = { temperature: 0, max_new_tokens: 8, ignore_eos: true };
      const prompts = { input_ids: [Array(9).fill(9), Array(7).fill(8)], sampling_params };
      expect((await second().post("/generate", prompts)).status).toBe(200);
      const info = await (await second().get("/get_server_info")).json();
      const { internal_states: states } = info as {
        readonly internal_states: readonly { readonly num_overlapped_steps: number }[];
      };
      expect(states[0]!.num_overlapped_steps).toBeGreaterThan(0);
      await second().sees(/Two-batch overlap: steps with several sequences are cut in two/);
    },
    epSize: () => echoed("ep_size", 2),
    epNumRedundantExperts: () => echoed("ep_num_redundant_experts", 4),
    initExpertLocation: () => refusedAtStart("--init-expert-location", "[1]"),
    eplbAlgorithm: () => echoed("eplb_algorithm", "deepseek_hierarchical"),
    enableEplb: async () => {
      const server = await serveWisp([
        ...["--adapter", adapterName(), "--tp", "2", "--ep-num-redundant-experts", "2"],
        "--enable-expert-distribution-metrics",
        ...["--enable-eplb", "--eplb-rebalance-num-iterations", "4"],
        ...["--eplb-rebalance-layers-per-chunk", "2"],
        ...["--eplb-min-rebalancing-utilization-threshold", "1"],
      ]);
      const sampling_params = { temperature: 0, max_new_tokens: 20, ignore_eos: true };
      await server.post("/generate", { input_ids: Array(9).fill(9), sampling_params });
      await server.sees(/Experts: \d+ slots changed in .* s, balancedness/);
      await server.sees(
        /\[Expert Balancedness\] forward_pass_id=9 current_pass_balancedness=0\.\d/,
      );
    },
    // The server of the test above says it.
    expertMetrics: () => echoed("enable_expert_distribution_metrics", false),
    eplbIterations: () => refusedAtStart("--eplb-rebalance-num-iterations", "0"),
    eplbLayersPerChunk: () => refusedAtStart("--eplb-rebalance-layers-per-chunk", "0"),
    eplbThreshold: () => refusedAtStart("--eplb-min-rebalancing-utilization-threshold", "2"),
    expertRecorderMode: async () => {
      for (const verb of ["start", "dump", "stop"]) {
        const path = `/${verb}_expert_distribution_record`;
        expect((await second().post(path, {})).status).toBe(200);
      }
    },
    expertRecorderDir: () => echoed("expert_distribution_recorder_dir", expect.any(String)),
    recordedPasses: () => echoed("expert_distribution_recorder_buffer_size", 5),
    moeA2aBackend: () => echoed("moe_a2a_backend", "deepep"),
    deepepMode: () => echoed("deepep_mode", "normal"),
    deepepConfig: () => refusedAtStart("--moe-a2a-backend", "deepep", "--deepep-config", "[]"),
    epDispatchAlgorithm: () => echoed("ep_dispatch_algorithm", "dynamic"),
  };
}
