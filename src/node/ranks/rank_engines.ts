/**
 * What the first rank of a server loads: the engine of all ranks, or one for each of their attention
 * groups.
 *
 * @module
 */
import { Engine } from "../../engine/engine.ts";
import type { EngineOptions } from "../../engine/engine_options.ts";
import { optionsOfGroup } from "../../engine/groups/attention_groups.ts";
import { ledAttentionGroups } from "../../engine/groups/led_groups.ts";
import type { LedRanks } from "../../engine/ranks/rank_leader.ts";
import type { RankLink } from "../../engine/ranks/rank_link.ts";
import type { GenerationEngine } from "../../generation.ts";
import { layerOver } from "../../server/engine_layer.ts";
import { startReplicas } from "../replicas/start_replicas.ts";
import { describeRanks } from "../serve/describe_sizes.ts";
import type { LocalRanksOf } from "../serve/open_model.ts";
import {
  balanceOf,
  type EngineSetting,
  engineSetting,
  reportLoaded,
  type StartEngine,
  type StartedEngine,
  type StartOptions,
} from "../serve/start_engine.ts";
import type { StartReport } from "../serve/start_report.ts";
import { attentionGroupsOf, describeGroups } from "./attention_group_options.ts";

export interface RankLoading {
  readonly link: RankLink;
  readonly setting: EngineSetting;
  readonly report: StartReport;
  readonly options: StartOptions;
  /** Of this machine's ranks. */
  readonly local: LocalRanksOf;
  /** Where they are, as the start tells. */
  readonly where: string;
  /** Opens a device when no other rank of the process does. */
  readonly inTurn: <T>(work: () => Promise<T>) => Promise<T>;
  /** What an engine is loaded with where ranks are processes. */
  readonly adapt: (given: EngineSetting["given"]) => EngineSetting["given"];
}

export interface FirstRank {
  readonly engine: GenerationEngine & Pick<StartedEngine, "pageLayout">;
  /** Has the other ranks end, once it is closed. */
  end(): Promise<void>;
}

/** @param more What it is loaded with beside what the options say. */
export async function loadEngine(
  { report, options, adapt, inTurn }: Omit<RankLoading, "setting">,
  { source, opened, given }: EngineSetting,
  more: Partial<EngineOptions> & LedRanks["options"],
): Promise<Engine> {
  const engine: Engine = await Engine.load(source, {
    ...adapt(given),
    device: () => inTurn(() => opened.openNext()),
    ...more,
    onRecovery: (event) => report.recovery(event),
    onRebalance: (event) => report.rebalanced(event),
    ...balanceOf(options, report),
    onStep: report.step && ((step) => report.step?.(step, engine.status())),
  });
  reportLoaded(engine, options, report);
  return engine;
}

/** Says how many ranks there are, and what each of them has whole. */
export function reportRanks({ unshared }: Engine, { link, report, where }: RankLoading): void {
  report.sizes(describeRanks(link.communicator.size, unshared, where));
}

/** An engine for each attention group, as one that shares requests out among them. */
export async function loadRankGroups(loading: RankLoading): Promise<FirstRank> {
  const { link, report, options, local, setting } = loading;
  const { loadBalanceMethod, enableDpLmHead: headByGroup } = options;
  const dpSize = attentionGroupsOf(options)!;
  const led = ledAttentionGroups(link, dpSize);
  const engines: Engine[] = [];
  const start: StartEngine = async (own, ownReport, part) => {
    const { replica, services } = part!;
    const given = { ...loading, options: own, report: ownReport };
    const openDevices = async () => setting.opened;
    const ofGroup =
      replica === 0 ? setting : await engineSetting(own, ownReport, local, openDevices);
    const engine = await loadEngine(
      {
        ...given,
        adapt: (one) => optionsOfGroup({ ...loading.adapt(one), attentionGroups: dpSize }, replica),
      },
      ofGroup,
      { ...led.options, ...services, headByGroup, loadRanks: led.loading.of(replica) },
    );
    if (replica === 0) reportRanks(engine, loading);
    engines.push(engine);
    return engine;
  };
  const { size } = link.communicator;
  const about = describeGroups({ ...options, dpSize, tpSize: size });
  const all = await startReplicas(start, { dpSize, loadBalanceMethod }, about)(options, report);
  const [first] = engines;
  return {
    // All ranks are in the steps of each group: one profile has them all.
    engine: layerOver(all, { profile: (work, wanted) => first!.profile(work, wanted) }),
    end: () => led.end(),
  };
}
