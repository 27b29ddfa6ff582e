/**
 * What replicas of a server answer, asked by their numbers, and what it tells of them.
 *
 * @module
 */
import { expect } from "vitest";
import type { ServingWisp } from "./wisp.ts";

export interface ReplicaAnswer {
  readonly output_ids: readonly number[];
  readonly meta_info: { readonly dp_rank: number };
}

/** @param rank Which replica is to answer. Default: the server chooses. */
export async function answerOf(server: ServingWisp, rank?: number): Promise<ReplicaAnswer> {
  const sampling_params = { temperature: 0, max_new_tokens: 8, ignore_eos: true };
  const body = { text: "The sea", sampling_params, data_parallel_rank: rank };
  const response = await server.post("/generate", body);
  expect(response.status, await response.clone().text()).toBe(200);
  return (await response.json()) as ReplicaAnswer;
}

/** What the server tells of each replica. */
export async function statesOf(
  server: ServingWisp,
): Promise<readonly Readonly<Record<string, unknown>>[]> {
  const info = await (await server.get("/get_server_info")).json();
  return (info as { readonly internal_states: readonly Record<string, unknown>[] }).internal_states;
}
