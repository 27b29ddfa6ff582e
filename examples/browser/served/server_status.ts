/**
 * What a server tells of itself, as far as the panel shows it.
 *
 * @module
 */
import type { CacheUse } from "../panel/memory_section.ts";
import type { Activity } from "../panel/speed_section.ts";

export interface ServerStatus extends Activity, CacheUse {
  /** Bytes on the device. */
  readonly weightBytes: number;
  readonly cacheBytes: number;
  /** Tokens a second of all requests together. */
  readonly throughput: number;
}

/** @param info The body of `/get_server_info`. */
export function serverStatus(info: unknown): ServerStatus {
  const options = record(info);
  const states = options.internal_states;
  const state = record(Array.isArray(states) ? states[0] : undefined);
  const memory = record(state.memory_usage);
  return {
    runningRequests: number(state.num_running_reqs),
    queuedRequests: number(state.num_waiting_reqs),
    totalTokens: number(options.max_total_num_tokens),
    usedTokens: number(state.num_used_tokens),
    cachedTokens: number(state.num_cached_tokens),
    weightBytes: number(memory.weight_bytes),
    cacheBytes: number(memory.kvcache_bytes),
    throughput: number(state.last_gen_throughput),
    tokensPerStep: tokensPerStep(options.speculative_algorithm, state.avg_spec_accept_length),
  };
}

function tokensPerStep(algorithm: unknown, length: unknown): string {
  if (typeof length === "number") return length.toFixed(2);
  return typeof algorithm === "string" ? "–" : "1, no drafts";
}

/** Figures of all requests since the start. */
export interface ServerTotals {
  readonly requests: number;
  readonly promptTokens: number;
  readonly cachedTokens: number;
  readonly generatedTokens: number;
  /** Seconds to the first token on average; undefined before there was one. */
  readonly firstTokenSeconds: number | undefined;
}

/** @param page The text of `/metrics`: a line for each figure, its name and labels before its value. */
export function serverTotals(page: string): ServerTotals {
  const figures = new Map<string, number>();
  for (const line of page.split("\n")) {
    const [, name, value] = /^wisp:(\w+)(?:\{.*\})? (\S+)$/.exec(line) ?? [];
    if (name !== undefined) figures.set(name, Number(value));
  }
  const figure = (name: string) => figures.get(name) ?? 0;
  const answered = figure("time_to_first_token_seconds_count");
  return {
    requests: figure("num_requests_total"),
    promptTokens: figure("prompt_tokens_total"),
    cachedTokens: figure("cached_tokens_total"),
    generatedTokens: figure("generation_tokens_total"),
    firstTokenSeconds:
      answered === 0 ? undefined : figure("time_to_first_token_seconds_sum") / answered,
  };
}

function record(value: unknown): Readonly<Record<string, unknown>> {
  return typeof value === "object" && value !== null ? { ...value } : {};
}

function number(value: unknown): number {
  return typeof value === "number" ? value : 0;
}
