/**
 * What a server says of itself: its model, how it was started, how much it has to do.
 *
 * @module
 */
import type { EngineStatus } from "../../generation.ts";
import type { RankStatus } from "../../ranks_status.ts";
import type { SamplingParams } from "../../sampling_params.ts";
import { acceptLength } from "../../speculation_figures.ts";
import type { ServerContext } from "../server_context.ts";

/** `GET /get_model_info`, with what a client needs to know to leave fields out. */
export function modelInfo({ engine, description, forms }: ServerContext): Response {
  const { path, architecture, modelType, family, thinkingVariables } = engine.model;
  const { readsImages = false } = engine.model;
  return Response.json({
    model_path: path,
    tokenizer_path: path,
    is_generation: true,
    preferred_sampling_params: description.preferred_sampling_params ?? null,
    weight_version: "default",
    has_image_understanding: readsImages,
    has_audio_understanding: false,
    model_type: modelType ?? null,
    architectures: [architecture],
    chat_family: family,
    tool_call_parser: forms.toolCalls ?? null,
    reasoning_parser: forms.reasoning ?? null,
    thinking_variables: thinkingVariables,
    default_sampling_params: wireDefaults(engine.model.defaults),
  });
}

/** What the model samples by where neither a request nor an option of the server says. */
function wireDefaults({ temperature, topP, topK, maxNewTokens }: SamplingParams): object {
  return {
    temperature: temperature ?? 1,
    top_p: topP ?? 1,
    top_k: topK ?? -1,
    max_tokens: maxNewTokens ?? null,
  };
}

/** `GET /get_server_info`: the options of the start, and the engine as it is now. */
export function serverInfo(context: ServerContext): Response {
  const { engine, description, lifecycle, role } = context;
  const status = engine.status();
  const shared = role?.counts?.();
  return Response.json({
    ...description,
    status: lifecycle(),
    // One request can have no more.
    max_total_num_tokens: (status.replicas?.[0] ?? status).totalTokens,
    max_req_input_len: engine.model.contextLength - 1,
    ...(shared && { disaggregation: shared }),
    internal_states: status.replicas?.map((one, i) => wireState(one, context, i)) ?? [
      wireState(status, context),
    ],
  });
}

/** An engine as it is; one of several has a number. */
function wireState(status: EngineStatus, { rate }: ServerContext, replica?: number): object {
  const { prefixStore, speculation } = status;
  return {
    ...wireNumber(replica),
    healthy: status.healthy,
    recovering: status.recovering,
    ...(status.draining && { draining: true }),
    ...(status.sleep && { sleep: status.sleep }),
    num_running_reqs: status.runningRequests,
    num_waiting_reqs: status.queuedRequests,
    num_used_tokens: status.usedTokens,
    num_cached_tokens: status.cachedTokens,
    num_retractions: status.retractions,
    num_recoveries: status.recoveries,
    ...(status.restarts !== undefined && { num_restarts: status.restarts }),
    ...(status.overlappedSteps !== undefined && {
      num_overlapped_steps: status.overlappedSteps,
    }),
    last_gen_throughput: rate.tokensPerSecond(replica),
    ...(speculation &&
      speculation.verifySteps > 0 && { avg_spec_accept_length: acceptLength(speculation) }),
    memory_usage: wireMemory(status),
    ...(status.ranks && { ranks: status.ranks.map((rank) => wireRank(rank, status)) }),
    ...(prefixStore && {
      prefix_store: {
        size: gigabytes(prefixStore.bytes),
        num_stored_tokens: prefixStore.storedTokens,
        num_restored_tokens: prefixStore.restoredTokens,
      },
    }),
    load: loadOf(status),
    batch_invariant: status.batchInvariant,
    numeric_classes: status.numericClasses,
  };
}

function wireMemory({ weightBytes, cacheBytes, totalTokens }: EngineStatus): object {
  return {
    weight: gigabytes(weightBytes),
    kvcache: gigabytes(cacheBytes),
    // As they are, for models whose gigabytes are a fraction.
    weight_bytes: weightBytes,
    kvcache_bytes: cacheBytes,
    token_capacity: totalTokens,
    // Recorded launches are no memory of the device.
    graph: 0,
  };
}

const gigabytes = (bytes: number): number => Math.round((100 * bytes) / 2 ** 30) / 100;

const loadOf = ({ usedTokens, queuedTokens }: EngineStatus): number => usedTokens + queuedTokens;

const wireNumber = (replica: number | undefined): object =>
  replica === undefined ? {} : { dp_rank: replica };

/** All ranks of a model work on all of its requests. */
function wireRank({ rank, weightBytes, cacheBytes }: RankStatus, status: EngineStatus) {
  return {
    tp_rank: rank,
    load: loadOf(status),
    memory_usage: { weight_bytes: weightBytes, kvcache_bytes: cacheBytes },
  };
}

/** `GET /get_load`: tokens that are held or wait, for a router that shares requests out. */
export function loadInfo({ engine, role }: ServerContext): Response {
  const { replicas, ...status } = engine.status();
  const shared = role?.counts?.();
  const load = wireLoad(status);
  return Response.json({
    ...load,
    ...(replicas && { loads: replicas.map((one, i) => wireLoad(one, i)) }),
    ...(shared && {
      // The engine has ended prompts whose pages are still on their way.
      num_reqs: Math.max(load.num_reqs, shared.rooms),
      num_waiting_rooms: shared.rooms - shared.transferring,
      num_transferring_rooms: shared.transferring,
    }),
  });
}

function wireLoad(status: EngineStatus, replica?: number) {
  const { runningRequests, queuedRequests, usedTokens, ranks } = status;
  const load = loadOf(status);
  return {
    ...wireNumber(replica),
    load,
    ...(ranks && { ranks: ranks.map(({ rank }) => ({ tp_rank: rank, load })) }),
    num_reqs: runningRequests + queuedRequests,
    num_waiting_reqs: queuedRequests,
    num_tokens: usedTokens,
  };
}
