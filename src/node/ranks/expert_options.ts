/**
 * Options of how a model's experts lie on its ranks.
 *
 * @module
 */
import { readFile, stat } from "node:fs/promises";
import { MAX_TEXT_BYTES } from "../../checkpoint/json_file.ts";
import { jsonExcess } from "../../checkpoint/json_limits.ts";
import { EXPERT_RECORDER_MODES } from "../../expert_record.ts";
import { BALANCE_ALGORITHMS } from "../../parallel/experts/balance_experts.ts";
import { DISPATCH_ALGORITHMS } from "../../parallel/experts/dispatch_tables.ts";
import type { ExpertLocation } from "../../parallel/experts/expert_location.ts";
import {
  type ExpertOptions,
  MAX_RECORDED_PASSES,
  RECORDED_PASSES,
} from "../../parallel/experts/expert_options.ts";
import { REBALANCE_STEPS } from "../../parallel/experts/rebalance_options.ts";
import { OptionError, type OptionTable, type OptionValues } from "../options/option_parser.ts";
import { ALL_TO_ALL_OPTIONS, allToAllMode, allToAllWarnings } from "./all_to_all_options.ts";

const GROUP = "Experts";

export const EXPERT_OPTIONS = {
  ...ALL_TO_ALL_OPTIONS,
  epSize: {
    flags: ["--ep-size", "--ep", "--expert-parallel-size"],
    kind: "integer",
    value: "N",
    min: 1,
    default: 1,
    help:
      "parts that a model's experts are cut in, which divides --tp-size: ranks have one each, and " +
      "whole experts anyway where those can be shared out evenly",
    group: GROUP,
  },
  moeDenseTpSize: {
    flags: ["--moe-dense-tp-size"],
    kind: "integer",
    value: "N",
    min: 1,
    max: 1,
    defaultText: "all ranks",
    help:
      "ranks that share each dense feed-forward layer: with 1 every rank has them whole, which takes more " +
      "memory, exchanges nothing, and does not change an answer",
    group: GROUP,
  },
  epNumRedundantExperts: {
    flags: ["--ep-num-redundant-experts"],
    kind: "integer",
    value: "N",
    min: 0,
    default: 0,
    help: "copies of experts in each layer, on all ranks together",
    group: GROUP,
  },
  initExpertLocation: {
    flags: ["--init-expert-location"],
    kind: "string",
    value: "FILE",
    default: "trivial",
    help:
      "which rank has which expert at the start: trivial (one after the other, copies of the first), " +
      "a .json file, or JSON: {physical_to_logical_map: [layers][slots]} or {logical_count: " +
      "[layers][experts]}, how often each was chosen",
    group: GROUP,
  },
  eplbAlgorithm: {
    flags: ["--eplb-algorithm"],
    kind: "string",
    value: "NAME",
    choices: BALANCE_ALGORITHMS,
    default: "auto",
    help:
      "how experts are placed by how often they were chosen: by sums or (vec) by each recorded step, " +
      "over all ranks or (hierarchical) groups of experts on one machine; auto has groups where there are",
    group: GROUP,
  },
  epDispatchAlgorithm: {
    flags: ["--ep-dispatch-algorithm"],
    kind: "string",
    value: "NAME",
    choices: DISPATCH_ALGORITHMS,
    default: "static",
    help:
      "which copy of an expert rows go to: in turn, those of their rank first (static), or any " +
      "(dynamic); fake also makes choices up, to measure an even load: answers are nonsense",
    group: GROUP,
  },
  enableEplb: {
    flags: ["--enable-eplb"],
    kind: "flag",
    default: false,
    help:
      "move experts between steps while serving, so that ranks have about as much to do; answers stay " +
      "the same",
    group: GROUP,
  },
  eplbIterations: {
    flags: ["--eplb-rebalance-num-iterations"],
    kind: "integer",
    value: "N",
    min: 1,
    max: MAX_RECORDED_PASSES,
    default: REBALANCE_STEPS,
    help: "steps that are counted before --enable-eplb moves experts by them",
    group: GROUP,
  },
  eplbLayersPerChunk: {
    flags: ["--eplb-rebalance-layers-per-chunk"],
    kind: "integer",
    value: "N",
    min: 1,
    defaultText: "all",
    help: "layers whose experts are moved in front of one step",
    group: GROUP,
  },
  eplbThreshold: {
    flags: ["--eplb-min-rebalancing-utilization-threshold"],
    kind: "number",
    value: "F",
    min: 0,
    max: 1,
    default: 1,
    help: "evenness of what ranks have to do, mean over most, above which nothing is moved",
    group: GROUP,
  },
  recordedPasses: {
    flags: ["--expert-distribution-recorder-buffer-size"],
    kind: "integer",
    value: "N",
    min: 1,
    max: MAX_RECORDED_PASSES,
    default: RECORDED_PASSES,
    help: "last steps of which choices of experts are kept, while they are recorded",
    group: GROUP,
  },
  expertRecorderMode: {
    flags: ["--expert-distribution-recorder-mode"],
    kind: "string",
    value: "NAME",
    choices: EXPERT_RECORDER_MODES,
    defaultText: "none: the endpoints are refused",
    help:
      "what a server's /start_expert_distribution_record has recorded: how often experts are chosen " +
      "(stat), how many rows of each step go to each slot (per_pass), or where each row goes (per_token)",
    group: GROUP,
  },
} as const satisfies OptionTable;

/** Of what serves. */
export const EXPERT_METRIC_OPTIONS = {
  expertMetrics: {
    flags: ["--enable-expert-distribution-metrics"],
    kind: "flag",
    default: false,
    help: "a line of the log for every step, with how even the work of ranks is",
    group: GROUP,
  },
} as const satisfies OptionTable;

/** Of a server. */
export const EXPERT_RECORD_OPTIONS = {
  expertRecorderDir: {
    flags: ["--expert-distribution-recorder-dir"],
    kind: "string",
    value: "DIR",
    defaultText: "the system's folder for temporary files",
    help: "folder for the files of /dump_expert_distribution_record, which --init-expert-location reads",
    group: GROUP,
  },
} as const satisfies OptionTable;

interface WithRanks {
  readonly tpSize: number;
}

/**
 * What the options are to an engine.
 *
 * @throws {OptionError} when a location cannot be read.
 */
export async function expertOptions(
  options: OptionValues<typeof EXPERT_OPTIONS> & Partial<WithRanks>,
): Promise<ExpertOptions> {
  return {
    parallelSize: options.epSize,
    allToAll: allToAllMode({ ...options, tpSize: options.tpSize ?? 1 }),
    redundant: options.epNumRedundantExperts,
    location: await readLocation(options.initExpertLocation),
    balance: options.eplbAlgorithm,
    dispatch: options.epDispatchAlgorithm,
    recordedPasses: options.recordedPasses,
    recorderMode: options.expertRecorderMode,
    rebalance: options.enableEplb
      ? {
          everySteps: options.eplbIterations,
          layersAtOnce: options.eplbLayersPerChunk,
          minBalancedness: options.eplbThreshold,
        }
      : undefined,
  };
}

/** A warning for a server whose answers are of no use. */
export function expertWarnings({
  epDispatchAlgorithm,
  ...options
}: OptionValues<typeof EXPERT_OPTIONS> & WithRanks): readonly string[] {
  const exchanges = allToAllWarnings(options);
  if (epDispatchAlgorithm !== "fake") return exchanges;
  return [
    ...exchanges,
    "--ep-dispatch-algorithm fake makes up which experts are chosen: all answers are nonsense, and " +
      "only their speed means anything",
  ];
}

async function readLocation(value: string): Promise<ExpertLocation> {
  if (value === "trivial") return value;
  const isFile = value.endsWith(".json");
  const named = isFile ? value : "with this JSON";
  if (value.endsWith(".pt"))
    throw refusal(value, "files of PyTorch are not read; write it as JSON");
  const text = isFile ? await readLocationFile(value) : value;
  const excess = jsonExcess(text);
  if (excess !== undefined) throw refusal(named, excess);
  let parsed: unknown;
  try {
    parsed = JSON.parse(text);
  } catch (error) {
    throw refusal(named, `it is neither "trivial" nor JSON: ${(error as Error).message}`);
  }
  if (typeof parsed === "object" && parsed !== null && !Array.isArray(parsed)) {
    return parsed as ExpertLocation;
  }
  throw refusal(named, "it is no JSON object");
}

async function readLocationFile(path: string): Promise<string> {
  try {
    const { size } = await stat(path);
    if (size > MAX_TEXT_BYTES) {
      throw refusal(path, `it has ${size} bytes, over the limit of ${MAX_TEXT_BYTES}`);
    }
    return await readFile(path, "utf8");
  } catch (error) {
    if (error instanceof OptionError) throw error;
    throw refusal(path, `it cannot be read: ${(error as Error).message}`);
  }
}

const refusal = (value: string, state: string) =>
  new OptionError(`Cannot use option --init-expert-location ${value}: ${state}`);
