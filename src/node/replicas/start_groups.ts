/**
 * Starts a server's attention groups: engines that attend to different requests, and share the ranks of
 * one model.
 *
 * @module
 */
import { requireUsableGroups } from "../../engine/groups/attention_groups.ts";
import { GroupLoading } from "../../engine/groups/group_loading.ts";
import type { EngineLaunchOptions } from "../options/options.ts";
import { describeGroups } from "../ranks/attention_group_options.ts";
import { asOptionError } from "../serve/map_options.ts";
import type { ReplaceableDevice } from "../serve/open_model.ts";
import type { AttentionGroupPart, StartEngine } from "../serve/start_engine.ts";
import type { ReplicaOptions } from "./replica_options.ts";
import { startReplicas } from "./start_replicas.ts";

type GroupOptions = ReplicaOptions &
  Pick<EngineLaunchOptions, "tpSize" | "maxRunningRequests" | "chunkedPrefillSize" | "pageSize"> & {
    readonly enableDpLmHead: boolean;
    readonly moeDenseTpSize?: number | undefined;
  };

/**
 * @param start Starts the engine of one of them.
 * @returns What starts as many as options ask for; where one does not start, none is left.
 * @throws {OptionError} naming an option that they do not go with.
 */
export function startGroups(start: StartEngine, options: GroupOptions): StartEngine {
  const { dpSize, enableDpLmHead: headByGroup } = options;
  requireGroupSizes(options);
  const about = describeGroups(options);
  return async (given, report) => {
    const loading = new GroupLoading(dpSize);
    let opened: Promise<ReplaceableDevice> | undefined;
    const openDevices: AttentionGroupPart["openDevices"] = (open) => {
      opened ??= open();
      return opened;
    };
    const startGroup: StartEngine = (own, ownReport, part) => {
      const { replica } = part!;
      const group = { loadRanks: loading.of(replica), headByGroup, openDevices };
      return start(own, ownReport, { ...part!, group });
    };
    try {
      return await startReplicas(startGroup, options, about)(given, report);
    } catch (error) {
      loading.destroy();
      throw error;
    }
  };
}

/** @throws {OptionError} naming an option that so many groups do not go with. */
export function requireGroupSizes({
  tpSize,
  dpSize,
  ...options
}: Omit<GroupOptions, "enableDpLmHead">): void {
  const sizes = { tensorParallelSize: tpSize, attentionGroups: dpSize };
  try {
    requireUsableGroups({ ...options, ...sizes });
  } catch (error) {
    throw asOptionError(error);
  }
}
