/**
 * A simulation as lines for a terminal.
 *
 * @module
 */
import { megabytes } from "../../engine/load/memory_budget.ts";
import { largestOf } from "../../extremes.ts";
import type { DecodeReport, SimulationReport } from "../../simulate/simulate.ts";
import type { Bound } from "../../simulate/step_time.ts";

const BOUNDS: Readonly<Record<Bound, string>> = {
  weights: "bytes of weights",
  arithmetic: "arithmetic",
  cache: "bytes of the cache",
  launches: "launches",
  link: "the link",
  readbacks: "bytes to the host and back",
  host: "the host",
};

/** Every line ends with a line feed. */
export function formatSimulation(report: SimulationReport): string {
  const { memory, cache, prefill, decode } = report;
  const lines = [
    `${report.name} (${report.architecture}) on ${layoutOf(report)} of ${report.adapter}`,
    `Each device: ${megabytes(memory.weightBytes)} of weights, ${megabytes(memory.cacheBytes)} of KV cache, of ${megabytes(memory.budget)}`,
    `KV cache: ${count(cache.tokens)} tokens a replica, ${count(cache.allTokens)} in all, ${count(cache.requests)} such requests${copiesOf(report)}`,
    `Prompts: ${ms(prefill.seconds)} ms for the first ${count(prefill.chunkTokens)} tokens, ${count(prefill.tokensPerSecond)} tokens/s a replica; bound by ${BOUNDS[prefill.bound]}${transferOf(report)}`,
  ];
  return `${lines.join("\n")}\n\n${decodeTable(decode)}`;
}

function layoutOf({ devices, layout }: SimulationReport): string {
  const { tensorParallelSize: ranks, replicas, prefillReplicas, decodeReplicas } = layout;
  const of = ranks === 1 ? "" : ` of ${ranks} ranks`;
  const roles =
    replicas > 0
      ? `${replicas} ${replicas === 1 ? "replica" : "replicas"}${of}`
      : `${prefillReplicas} that read prompts and ${decodeReplicas} that generate,${of === "" ? " one rank" : of} each`;
  return `${devices} ${devices === 1 ? "device" : "devices"}, ${roles},`;
}

function copiesOf({ cache: { copies } }: SimulationReport): string {
  return copies > 1 ? `; ${copies} ranks hold the same` : "";
}

function transferOf({ prefill: { transferSeconds } }: SimulationReport): string {
  return transferSeconds > 0 ? `; its keys and values travel ${ms(transferSeconds)} ms` : "";
}

function decodeTable(decode: readonly DecodeReport[]): string {
  const header = ["batch", "ms a step", "tokens/s", "with prompts", "requests/s", "bound by"];
  const rows = decode.map((one) => [
    count(one.batch),
    ms(one.seconds),
    count(one.tokensPerSecond),
    count(one.throughput),
    one.requestsPerSecond.toPrecision(3),
    `${BOUNDS[one.bound]} (${((100 * one.parts[one.bound]) / one.seconds).toFixed(0)} %)`,
  ]);
  const all = [header, ...rows];
  const widths = header.map((_, c) => largestOf(all.map((row) => row[c]!.length)));
  const last = header.length - 1;
  const lines = all.map((row) =>
    row.map((cell, c) => (c === last ? cell : cell.padStart(widths[c]!))).join("  "),
  );
  return lines.map((line) => `${line}\n`).join("");
}

const ms = (seconds: number) => (1e3 * seconds).toFixed(seconds < 0.1 ? 2 : 0);
const count = (value: number) => Math.round(value).toLocaleString("en-US");
