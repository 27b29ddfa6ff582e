/**
 * Tables of what compilers make of the kernels.
 *
 * @module
 */
import { table } from "../support/table.ts";
import type { LoopCode } from "./loop_counts.ts";
import { hotLoop, type PipelineCode } from "./pipeline_code.ts";

/** Constants that tell forms apart, by short names; others only take room. */
const SHORT: Readonly<Record<string, string>> = {
  TOKENS: "rows",
  TOKEN_LANES: "row lanes",
  BLOCK_SPLIT: "split",
  WORKGROUP_SIZE: "workgroup",
  LEVELS: "levels",
  ROWS: "rows",
  HEADS: "heads",
  LANES: "lanes",
};

/** The kernel and what tells its form. */
export function nameOf({ model, kernel, constants }: PipelineCode): string {
  const told = Object.entries(SHORT).flatMap(([name, short]) =>
    constants[name] === undefined ? [] : [`${short} ${String(constants[name])}`],
  );
  return `${model} ${kernel} ${told.join(", ")}`.trim();
}

/** Loads by width: "8x16B 2x4B". */
export function loadsOf({ loads, uniformLoads }: LoopCode): string {
  const wide = [...loads].sort(([a], [b]) => b - a).map(([bytes, count]) => `${count}x${bytes}B`);
  return [...wide, ...(uniformLoads > 0 ? [`${uniformLoads} shared`] : [])].join(" ");
}

const HEADER = [
  ...["pipeline", "width", "registers", "waves", "spills", "scratch", "instructions"],
  ...["loop", "vector", "multiply-adds", "share", "loads", "in flight", "waits", "private"],
];

function rowOf(pipeline: PipelineCode): string[] {
  const hot = hotLoop(pipeline);
  const share = hot && `${Math.round((100 * hot.multiplyAdds) / hot.vector)} %`;
  const { width, registers, waves, spills, scratch, instructions } = pipeline;
  return [
    nameOf(pipeline),
    ...[width, registers, waves ?? "", spills, scratch, instructions].map(String),
    ...[hot?.instructions, hot?.vector, hot?.multiplyAdds, share].map((one) => String(one ?? "")),
    hot ? loadsOf(hot) : "",
    ...[hot?.loadsInFlight, hot?.waits, hot?.privateAccesses].map((one) => String(one ?? "")),
  ];
}

/** Whether a pipeline has fewer waves than `least`; Intel's have as many always. */
export const hasFewWaves = ({ waves }: PipelineCode, least: number): boolean =>
  waves !== undefined && waves < least;

/** Waves a SIMD below which loads are hidden badly. */
export const LEAST_WAVES = 8;

/** A line for each pipeline, and one of counts. */
export function codeTable(pipelines: readonly PipelineCode[]): string {
  const count = (is: (one: PipelineCode) => boolean) => pipelines.filter(is).length;
  const counts = [
    `${pipelines.length} pipelines`,
    `${count(({ spills }) => spills > 0)} spill`,
    `${count(({ scratch }) => scratch > 0)} use private memory`,
    `${count((one) => hasFewWaves(one, LEAST_WAVES))} have fewer than ${LEAST_WAVES} waves`,
    `${count((one) => (hotLoop(one)?.privateAccesses ?? 0) > 0)} use private memory in their hot loop`,
  ];
  return `${table(HEADER, pipelines.map(rowOf))}\n\n${counts.join("; ")}\n`;
}
