/**
 * Serves a model on one rank or on several: in this process, on one thread or on several, or in processes
 * that MPI joins.
 *
 * @module
 */
import { UnsupportedError } from "../../errors.ts";
import type { CommandContext } from "../commands/command_context.ts";
import { openFolder } from "../files.ts";
import { resolveModel } from "../hub/resolve_model.ts";
import { outerGroup } from "../mpi/outer_launcher.ts";
import type { GroupPlace } from "../mpi/rank_options.ts";
import { Logger } from "../observe/logger.ts";
import type { LaunchOptions } from "../options/options.ts";
import { prefixStore } from "../options/prefix_cache_options.ts";
import { defaultModelPath } from "../package_root.ts";
import { requireUsableReplicas } from "../replicas/replica_options.ts";
import { requireFreeAddress } from "../serve/http.ts";
import { serveModel } from "../serve/serve_model.ts";
import type { StartEngine } from "../serve/start_engine.ts";
import { attentionGroups, requireUsableGroups } from "./attention_group_options.ts";
import { idleGroupOptions } from "./group_options.ts";
import { requireOverlap } from "./overlap_options.ts";
import {
  asksForNodes,
  placeOfThreads,
  rankPlace,
  replicasOfNodes,
  requireOfProcesses,
  roleOptionsOf,
} from "./rank_place.ts";

/**
 * Runs until SIGTERM or SIGINT, or until the group has ended.
 *
 * @throws {OptionError} where options do not go together.
 * @throws {CheckpointError | MissingModelError} when the model is not here.
 * @throws {LaunchError} with the exit code that says why a group has ended or did not start.
 * @throws {UnsupportedError} where this machine has no MPI and is one of several.
 */
export async function serveRanks(options: LaunchOptions, context: CommandContext): Promise<void> {
  const place = rankPlace(options);
  const outer = asksForNodes(options) ? undefined : outerGroup(process.env);
  const ofGroups = attentionGroups(options) !== undefined;
  requireUsableReplicas(options, {
    isOuter: outer !== undefined,
    ofGroups,
  });
  const tpSize = outer?.size ?? options.tpSize;
  requireUsableGroups({ ...options, tpSize });
  requireOverlap({ ...options, tpSize });
  const { stderr } = context;
  const log = new Logger({ stderr, level: options.logLevel, format: options.logFormat });
  if (place === undefined && outer === undefined) return serveHere(options, context, log);
  const lack = await lackOfMpi();
  if (lack !== undefined && (outer !== undefined || place!.nodes > 1)) throw lack;
  if (lack !== undefined) {
    log.line("info", `Ranks: one process has all of them, as ${lack.message}`);
    return serveHere(options, context, log);
  }
  requireOfProcesses(options);
  if (ofGroups) {
    const { requireGroupSizes } = await import("../replicas/start_groups.ts");
    requireGroupSizes({ ...options, tpSize });
  }
  // Ranks would find it out one by one.
  prefixStore(options, { warnings() {} });
  await requireModel(options);
  if (outer !== undefined) {
    const { serveOuter } = await import("./serve_outer.ts");
    return serveOuter(options, context, outer);
  }
  return serveNode(options, { context, place: place!, log });
}

/** All ranks are in this process, those of all replicas: each in a thread of its own, or in one. */
async function serveHere(
  options: LaunchOptions,
  context: CommandContext,
  log: Logger,
): Promise<void> {
  const onOne = await replicated(options, context.startEngine);
  const program = await programOfThreads(options);
  if (program === undefined) return serveModel(options, { ...context, startEngine: onOne });
  const onThreads = await startOnThreads(options, log, program);
  const startEngine: StartEngine = async (...given) => {
    try {
      return await onThreads(...given);
    } catch (error) {
      // What is wrong with options or the model, the other way says once more.
      log.line("info", `Ranks: one thread has all of them, as ${(error as Error).message}`);
      const { tpSize, restart } = options;
      for (const line of idleGroupOptions({ tpSize, restart }, false)) log.line("info", line);
      return onOne(...given);
    }
  };
  return serveModel(options, { ...context, startEngine, processes: "threads" });
}

/** Undefined where the ranks are on one thread. */
async function programOfThreads(options: LaunchOptions): Promise<URL | undefined> {
  if (options.tpSize === 1) return undefined;
  const { areThreads, threadProgram } = await import("../threads/thread_ranks.ts");
  return areThreads(options, process.env) ? threadProgram() : undefined;
}

async function startOnThreads(
  options: LaunchOptions,
  log: Logger,
  program: URL,
): Promise<StartEngine> {
  const { startRanks } = await import("./group_engine.ts");
  const { launchRankThreads } = await import("../threads/thread_ranks.ts");
  const { tpSize, restart } = options;
  const start = startRanks({
    place: placeOfThreads(options),
    restart,
    log,
    launch: (given) => launchRankThreads(program, given),
  });
  if (attentionGroups(options) === undefined) return replicated(options, start);
  const { requireGroupSizes } = await import("../replicas/start_groups.ts");
  requireGroupSizes({ ...options, tpSize });
  return start;
}

/** @param start Starts one replica. */
async function replicated(options: LaunchOptions, start: StartEngine): Promise<StartEngine> {
  if (options.dpSize === 1) return start;
  if (attentionGroups(options) !== undefined) {
    const { startGroups } = await import("../replicas/start_groups.ts");
    return startGroups(start, options);
  }
  const { startReplicas } = await import("../replicas/start_replicas.ts");
  return startReplicas(start, options);
}

interface NodeSetting {
  readonly context: CommandContext;
  readonly place: GroupPlace;
  readonly log: Logger;
}

async function serveNode(
  options: LaunchOptions,
  { context, place, log }: NodeSetting,
): Promise<void> {
  const areReplicas = replicasOfNodes(options);
  if (place.node > 0) {
    await requireFreeAddress(options);
    const { serveMember } = await import("./serve_member.ts");
    if (!areReplicas) return serveMember(options, { place, log });
    const { serveReplicas } = await import("../replicas/serve_replicas.ts");
    return serveMember(options, { place, log, serveReplicas });
  }
  if (areReplicas) {
    const { startReplicasOfNodes } = await import("../replicas/replicas_of_nodes.ts");
    const startEngine = startReplicasOfNodes(options, { place, log });
    return serveModel(options, { ...context, startEngine, processes: "ours" });
  }
  const { startRanks } = await import("./group_engine.ts");
  const start = startRanks({ place, role: roleOptionsOf(options), restart: options.restart, log });
  // The first rank has the engines of all groups.
  const hasGroups = attentionGroups(options) !== undefined;
  const startEngine = hasGroups ? start : await replicated(options, start);
  return serveModel(options, { ...context, startEngine, processes: "ours" });
}

/** Finds what is wrong with the model's place before any rank looks. */
async function requireModel({ modelPath, revision }: LaunchOptions): Promise<void> {
  const { folder } = await resolveModel(modelPath ?? defaultModelPath(), { revision });
  const source = await openFolder(folder);
  await source.close();
}

/** Why ranks of this machine cannot be processes; undefined where they can. */
async function lackOfMpi(): Promise<UnsupportedError | undefined> {
  try {
    const { buildShim } = await import("../mpi/build_shim.ts");
    const { importKoffi } = await import("../mpi/mpi_library.ts");
    buildShim();
    await importKoffi();
    return undefined;
  } catch (error) {
    if (error instanceof UnsupportedError) return error;
    throw error;
  }
}
