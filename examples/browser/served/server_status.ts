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

/** @param info The body of `/get_server_info`: of several replicas the sums. */
export function serverStatus(info: unknown): ServerStatus {
  const options = record(info);
  const { internal_states } = options;
  const states = (Array.isArray(internal_states) ? internal_states : []).map(record);
  const memories = states.map(({ memory_usage }) => record(memory_usage));
  const lengths = states.flatMap(({ avg_spec_accept_length: length }) =>
    typeof length === "number" ? [length] : [],
  );
  return {
    runningRequests: sum(states, "num_running_reqs"),
    queuedRequests: sum(states, "num_waiting_reqs"),
    totalTokens: sum(memories, "token_capacity"),
    usedTokens: sum(states, "num_used_tokens"),
    cachedTokens: sum(states, "num_cached_tokens"),
    weightBytes: sum(memories, "weight_bytes"),
    cacheBytes: sum(memories, "kvcache_bytes"),
    throughput: sum(states, "last_gen_throughput"),
    tokensPerStep: tokensPerStep(options.speculative_algorithm, lengths),
  };
}

/** @param lengths Of each replica that has drafted. */
function tokensPerStep(algorithm: unknown, lengths: readonly number[]): string {
  if (lengths.length > 0) {
    return (lengths.reduce((all, length) => all + length, 0) / lengths.length).toFixed(2);
  }
  return typeof algorithm === "string" ? "–" : "1, no drafts";
}

function sum(records: readonly Readonly<Record<string, unknown>>[], name: string): number {
  return records.reduce((all, one) => all + number(one[name]), 0);
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
