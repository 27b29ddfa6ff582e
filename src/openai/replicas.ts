/**
 * Several engines with the same model as users of the library have them: as one.
 *
 * @module
 */
import type { WeightSource } from "../checkpoint/source.ts";
import type { GroupedOptions } from "../engine/groups/attention_groups.ts";
import type { GenerationEngine } from "../generation.ts";
import type { ReplicasOptions } from "../parallel/replicas/replicated_engine.ts";
import type { OpenaiChat } from "../server/openai_chat.ts";
import { lazyChat } from "./lazy_chat.ts";

export interface Replicas extends GenerationEngine {
  /** As OpenAI's client has it: `engine.chat.completions.create({ messages })`. */
  readonly chat: OpenaiChat;
}

/**
 * Joins engines with the same model into one, which shares requests out among them. An answer does not
 * depend on where it is made. An engine that has failed gets no more requests, one whose device is being
 * replaced, or whose steps do not finish, none meanwhile.
 *
 * @param engines Loaded with the same options, each on a device of its own; closed with what this gives.
 * @throws {InvalidRequestError} when there are none, they differ, or an option is out of range.
 */
export async function joinReplicas(
  engines: readonly GenerationEngine[],
  options?: ReplicasOptions,
): Promise<Replicas> {
  const { ReplicatedEngine } = await import("../parallel/replicas/replicated_engine.ts");
  const joined = new ReplicatedEngine(engines, options);
  return Object.assign(joined, { chat: lazyChat(joined) });
}

/** How ranks attend in groups, and how a group is chosen for a request. */
export interface AttentionGroupsOptions extends GroupedOptions, ReplicasOptions {}

/**
 * Loads a model on ranks in this thread, in groups that attend to different requests: each has a cache
 * and batches of its own, and all of them share experts and dense layers. An answer has the bits of one
 * rank, whichever group gives it.
 *
 * @param open Opens the checkpoint; called once for each group, and what it gives is closed.
 * @throws {InvalidRequestError | UnsupportedError} naming an option that groups do not go with.
 * @throws As `Engine.load`.
 */
export async function loadAttentionGroups(
  open: () => WeightSource | Promise<WeightSource>,
  options: AttentionGroupsOptions,
): Promise<Replicas> {
  const { loadGroupEngines } = await import("../engine/groups/attention_groups.ts");
  return joinReplicas(await loadGroupEngines(open, options), options);
}
