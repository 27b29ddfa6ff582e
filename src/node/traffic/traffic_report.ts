/**
 * What traffic came to: the figures, and the table that shows them.
 *
 * @module
 */
import type { TrafficResult } from "./run_traffic.ts";

/** Of one kind of latency, in milliseconds; 0 where there was none. */
export interface Latency {
  readonly mean: number;
  readonly median: number;
  readonly p99: number;
}

export interface TrafficSummary {
  readonly completed: number;
  readonly failed: number;
  /** Seconds. */
  readonly duration: number;
  readonly inputTokens: number;
  readonly outputTokens: number;
  /** A second. */
  readonly requestThroughput: number;
  readonly inputThroughput: number;
  readonly outputThroughput: number;
  /** Requests that ran at the same time, on average. */
  readonly concurrency: number;
  readonly endToEnd: Latency;
  readonly timeToFirstToken: Latency;
  /** Of one answer, the mean time between its tokens. */
  readonly timePerOutputToken: Latency;
  /** Of all answers, each time between two tokens. */
  readonly interToken: Latency;
}

export function summarize({ records, failures, duration }: TrafficResult): TrafficSummary {
  const sum = (values: readonly number[]) => values.reduce((total, value) => total + value, 0);
  const inputTokens = sum(records.map(({ promptTokens }) => promptTokens));
  const outputTokens = sum(records.map(({ completionTokens }) => completionTokens));
  const endToEnd = records.map(({ endToEndLatency }) => endToEndLatency);
  const decoding = records.filter(({ interTokenLatencies }) => interTokenLatencies.length > 0);
  return {
    completed: records.length,
    failed: failures.length,
    duration,
    inputTokens,
    outputTokens,
    requestThroughput: records.length / duration,
    inputThroughput: inputTokens / duration,
    outputThroughput: outputTokens / duration,
    concurrency: sum(endToEnd) / 1000 / duration,
    endToEnd: latencyOf(endToEnd),
    timeToFirstToken: latencyOf(records.map(({ timeToFirstToken }) => timeToFirstToken)),
    timePerOutputToken: latencyOf(
      decoding.map(({ interTokenLatencies: gaps }) => sum(gaps) / gaps.length),
    ),
    interToken: latencyOf(records.flatMap(({ interTokenLatencies }) => interTokenLatencies)),
  };
}

function latencyOf(times: readonly number[]): Latency {
  const sorted = times.toSorted((a, b) => a - b);
  const mean = sorted.reduce((total, time) => total + time, 0) / Math.max(sorted.length, 1);
  return { mean, median: quantile(sorted, 0.5), p99: quantile(sorted, 0.99) };
}

/** Between two values, the point on the line that joins them; 0 of none. */
export function quantile(sorted: readonly number[], share: number): number {
  const at = (sorted.length - 1) * share;
  const below = sorted[Math.floor(at)] ?? 0;
  const above = sorted[Math.ceil(at)] ?? 0;
  return below + (above - below) * (at - Math.floor(at));
}

const WIDTH = 50;
const LABEL_WIDTH = 40;

/** The table, under the names that tools of this kind use. */
export function formatTraffic(
  summary: TrafficSummary,
  settings: readonly (readonly string[])[],
): string {
  const { endToEnd, timeToFirstToken, timePerOutputToken, interToken } = summary;
  const lines = [
    heading("Serving Benchmark Result", "="),
    ...settings.map(([label, value]) => line(label!, value!)),
    line("Successful requests", summary.completed),
    line("Failed requests", summary.failed),
    line("Benchmark duration (s)", summary.duration.toFixed(2)),
    line("Total input tokens", summary.inputTokens),
    line("Total generated tokens", summary.outputTokens),
    line("Request throughput (req/s)", summary.requestThroughput.toFixed(2)),
    line("Input token throughput (tok/s)", summary.inputThroughput.toFixed(2)),
    line("Output token throughput (tok/s)", summary.outputThroughput.toFixed(2)),
    line(
      "Total token throughput (tok/s)",
      (summary.inputThroughput + summary.outputThroughput).toFixed(2),
    ),
    line("Concurrency", summary.concurrency.toFixed(2)),
    heading("End-to-End Latency", "-"),
    ...latencyLines("E2E Latency", endToEnd),
    heading("Time to First Token", "-"),
    ...latencyLines("TTFT", timeToFirstToken),
    heading("Time per Output Token (excl. 1st token)", "-"),
    ...latencyLines("TPOT", timePerOutputToken),
    heading("Inter-Token Latency", "-"),
    ...latencyLines("ITL", interToken),
    "=".repeat(WIDTH),
  ];
  return `${lines.join("\n")}\n`;
}

function heading(title: string, fill: string): string {
  const left = Math.floor((WIDTH - title.length - 2) / 2);
  return `${fill.repeat(left)} ${title} `.padEnd(WIDTH, fill);
}

function line(label: string, value: string | number): string {
  return `${`${label}:`.padEnd(LABEL_WIDTH)} ${value}`;
}

function latencyLines(name: string, { mean, median, p99 }: Latency): string[] {
  return [
    line(`Mean ${name} (ms)`, mean.toFixed(2)),
    line(`Median ${name} (ms)`, median.toFixed(2)),
    line(`P99 ${name} (ms)`, p99.toFixed(2)),
  ];
}
