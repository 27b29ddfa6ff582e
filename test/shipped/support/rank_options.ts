/**
 * Tests of the options of ranks and replicas.
 *
 * @module
 */
import { expect } from "vitest";
import type { ServingWisp } from "./wisp.ts";

/** @param second Of `secondArguments`. */
export function rankTests(second: () => ServingWisp) {
  const echoed = async (name: string, value: unknown) => {
    const info = await (await second().get("/get_server_info")).json();
    expect((info as Readonly<Record<string, unknown>>)[name]).toEqual(value);
  };
  return {
    tpSize: () => echoed("tp_size", 2),
    nnodes: () => second().sees(/Ranks: (2 share the model over MPI|one process has all of them)/),
    nodeRank: () => echoed("node_rank", 0),
    restart: () => echoed("restart", true),
    distInitAddr: () => second().sees(/Option --dist-init-addr changes nothing: one machine/),
    // What several replicas do has a server of its own.
    dpSize: () => echoed("dp_size", 1),
    enableDpAttention: () =>
      second().sees(/Option --enable-dp-attention changes nothing: --dp-size is 1/),
    enableDpLmHead: () => echoed("enable_dp_lm_head", true),
    loadBalanceMethod: () =>
      second().sees(/Option --load-balance-method changes nothing: there is one replica/),
  };
}
