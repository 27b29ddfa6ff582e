/**
 * Where the ranks of a server are: in one process, or in processes that MPI joins.
 *
 * @module
 */
import { createHash } from "node:crypto";
import { serialize } from "node:v8";
import type { Facts } from "../../parallel/agree.ts";
import {
  DISAGGREGATION_OPTIONS,
  type RoleOptions,
} from "../disaggregation/disaggregation_options.ts";
import { type GroupPlace, groupPlace } from "../mpi/rank_options.ts";
import { OptionError } from "../options/option_parser.ts";
import { ENGINE_OPTIONS, type LaunchOptions } from "../options/options.ts";
import { SERVER_OPTIONS } from "../options/server_options.ts";
import { REPLICA_OPTIONS } from "../replicas/replica_options.ts";
import type { StartOptions } from "../serve/start_engine.ts";
import { ATTENTION_GROUP_OPTIONS, attentionGroupsOf } from "./attention_group_options.ts";

/** Seconds that nodes and ranks wait for each other at the start. */
const TIMEOUT = 600;
/** Characters of a value that nodes compare as it is; of a longer one they compare a hash. */
const LONGEST = 200;
/** Where files and adapters are is each node's matter: ranks compare what is in the files. */
const OWN: readonly string[] = [
  ...["help", "modelPath", "speculativeDraftModelPath"],
  ...["baseGpuId", "gpuIdStep"],
];

/** Whether options say which of several machines this is, or that there is one. */
export function asksForNodes({ nnodes, nodeRank, distInitAddr }: LaunchOptions): boolean {
  return nnodes !== undefined || nodeRank !== undefined || distInitAddr !== undefined;
}

/**
 * Where they are, when options ask for processes; undefined where one process has all ranks.
 *
 * @throws {OptionError} where options do not go together.
 */
export function rankPlace(options: LaunchOptions): GroupPlace | undefined {
  const { tpSize, dpSize, nnodes = 1, nodeRank, distInitAddr, distTimeout } = options;
  if (!asksForNodes(options)) return undefined;
  // A replica has all of its ranks on one node.
  const ranks = replicasOfNodes(options) ? tpSize * nnodes : tpSize;
  const place = groupPlace({
    tpSize: ranks,
    distInitAddr,
    nnodes,
    nodeRank: nodeRank ?? 0,
    distTimeout: distTimeout ?? TIMEOUT,
  });
  return tpSize * dpSize === 1 ? undefined : place;
}

/** Of ranks that are all threads of this process. */
export function placeOfThreads({
  tpSize,
  distTimeout = TIMEOUT,
}: Pick<LaunchOptions, "tpSize" | "distTimeout">): GroupPlace {
  const timeout = 1000 * distTimeout;
  return { nodes: 1, node: 0, ranksPerNode: tpSize, address: undefined, timeout };
}

/** Whether each of several machines has replicas of its own. */
export function replicasOfNodes(
  options: Pick<LaunchOptions, "dpSize" | "nnodes" | "enableDpAttention">,
): boolean {
  const { dpSize, nnodes = 1 } = options;
  return dpSize > 1 && nnodes > 1 && attentionGroupsOf(options) === undefined;
}

/** @throws {OptionError} naming what ranks that are processes cannot do. */
export function requireOfProcesses({
  sleepIdleSeconds,
}: Pick<LaunchOptions, "sleepIdleSeconds">): void {
  if (sleepIdleSeconds === undefined) return;
  const [flag] = SERVER_OPTIONS.sleepIdleSeconds.flags;
  const state =
    "ranks that are processes cannot do it yet; without --nnodes one process has them all";
  throw new OptionError(`Cannot use option ${flag} with --nnodes: ${state}`);
}

/** What all nodes must have alike, by the options' names. */
export function factsOf(options: StartOptions): Facts {
  const [mode] = DISAGGREGATION_OPTIONS.disaggregationMode.flags;
  const facts: Record<string, string | number | boolean> = {
    "the format of plain data": serialize(null)[1]!,
    [mode]: factOf(options.disaggregationMode),
  };
  if (attentionGroupsOf(options) !== undefined) {
    facts[REPLICA_OPTIONS.dpSize.flags[0]] = options.dpSize!;
    for (const [key, { flags }] of Object.entries(ATTENTION_GROUP_OPTIONS)) {
      facts[flags[0]] = factOf(options[key as keyof typeof options]);
    }
  }
  for (const [key, { flags }] of Object.entries(ENGINE_OPTIONS)) {
    if (!OWN.includes(key)) facts[flags[0]] = factOf(options[key as keyof typeof options]);
  }
  return facts;
}

function factOf(value: unknown): string | number | boolean {
  if (typeof value === "number" || typeof value === "boolean") return value;
  const text = typeof value === "string" ? value : (JSON.stringify(value) ?? "not given");
  return text.length <= LONGEST ? text : createHash("sha256").update(text).digest("hex");
}

/** The options that concern ranks, and nothing of the server around them. */
export function engineOptionsOf(options: LaunchOptions): StartOptions {
  const keys = [
    ...Object.keys({ ...ENGINE_OPTIONS, ...REPLICA_OPTIONS, ...ATTENTION_GROUP_OPTIONS }),
    "disaggregationMode",
  ] as (keyof StartOptions)[];
  return Object.fromEntries(keys.map((key) => [key, options[key]])) as unknown as StartOptions;
}

/** What a server shares with others by; undefined where it does not. */
export function roleOptionsOf(options: LaunchOptions): RoleOptions | undefined {
  if (options.disaggregationMode === "null") return undefined;
  const keys = ["host", ...Object.keys(DISAGGREGATION_OPTIONS)] as (keyof RoleOptions)[];
  return Object.fromEntries(keys.map((key) => [key, options[key]])) as unknown as RoleOptions;
}
