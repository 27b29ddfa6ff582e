/**
 * What `wisp doctor` has found, as data and as text.
 *
 * @module
 */
import { megabytes } from "../../engine/load/memory_budget.ts";
import type { SetVariable } from "../options/known_variables.ts";
import type { AdapterFindings } from "./doctor_adapter.ts";
import type { Advice } from "./doctor_advice.ts";
import type { CacheFindings } from "./doctor_caches.ts";

export interface DoctorReport {
  /** Whether an adapter works. */
  readonly healthy: boolean;
  readonly versions: Readonly<Record<"wisp" | "node" | "webgpu" | "system", string>>;
  readonly adapter: AdapterFindings | { readonly problem: string };
  readonly memory: {
    /** Bytes of the machine, and those that are free. */
    readonly total: number;
    readonly free: number;
    /** Bytes that a container may use; undefined without a limit. */
    readonly limit: number | undefined;
  };
  readonly caches: readonly CacheFindings[];
  readonly address: {
    readonly host: string;
    readonly port: number;
    /** Why a server could not listen there. */
    readonly problem: string | undefined;
  };
  readonly missing: readonly Advice[];
  readonly variables: readonly SetVariable[];
  /** One sentence each. */
  readonly warnings: readonly string[];
}

const COLUMN = 38;

/** Paragraphs with a heading, in aligned columns. */
export function formatDoctor(report: DoctorReport): string {
  const { versions, address, missing, variables, warnings } = report;
  const sections: readonly (readonly [heading: string, lines: readonly string[]])[] = [
    ["Versions", Object.entries(versions).map(([name, version]) => row(name, version))],
    ["Adapter", adapterLines(report.adapter)],
    ["Memory", memoryLines(report)],
    ["Folders", report.caches.flatMap(cacheLines)],
    ["Server", [row(`${address.host}:${address.port}`, address.problem ?? "free")]],
    ["Missing", missing.flatMap(({ missing: what, remedy }) => [`  ${what}`, `    ${remedy}`])],
    ["Variables", variables.flatMap(variableLines)],
    ["Warnings", warnings.map((sentence) => `  ${sentence}`)],
  ];
  const shown = sections.map(([heading, lines]) => {
    const text = lines.length === 0 ? "  nothing" : lines.join("\n");
    return `${heading}:\n${text}`;
  });
  const verdict = report.healthy
    ? "An adapter works: models can be served here."
    : "No adapter works.";
  return `${shown.join("\n\n")}\n\n${verdict}\n`;
}

function adapterLines(adapter: DoctorReport["adapter"]): readonly string[] {
  if ("problem" in adapter) return [`  ${adapter.problem}`];
  return [
    row("name", adapter.name),
    row("driver", adapter.driver || "unknown"),
    row("backend", adapter.isCpu ? `${adapter.backend}, on the CPU` : adapter.backend),
    row("features", adapter.features.join(", ") || "none"),
    ...Object.entries(adapter.limits).map(([name, limit]) => row(name, String(limit))),
    row("kernels measured", adapter.tuned ?? "no"),
  ];
}

function memoryLines({ memory, adapter }: DoctorReport): readonly string[] {
  const lines = [row("machine", `${megabytes(memory.total)}, ${megabytes(memory.free)} free`)];
  if (memory.limit !== undefined)
    lines.push(row("limit of this container", megabytes(memory.limit)));
  if ("assumedMemory" in adapter) {
    lines.push(
      row("taken for the device's", `${megabytes(adapter.assumedMemory)} (--device-memory)`),
    );
  }
  return lines;
}

function cacheLines({ name, path, exists, bytes, isAll, isWritable }: CacheFindings): string[] {
  const size = `${isAll ? "" : "more than "}${megabytes(bytes)}`;
  const state = `${exists ? size : "not there yet"}, ${isWritable ? "writable" : "not writable"}`;
  return [row(name, state), `    ${path}`];
}

function variableLines({ name, value, effect }: SetVariable): string[] {
  return [`  ${name}=${value ?? "(not shown)"}`, `    ${effect}`];
}

function row(name: string, value: string): string {
  return `  ${name.padEnd(COLUMN - 2)} ${value}`;
}
