/**
 * A rank of a server: the first has the engine, and the others follow it.
 *
 * @module
 */
import { deserialize, serialize } from "node:v8";
import { optionsOfGroup } from "../../engine/groups/attention_groups.ts";
import type { LoadOptions } from "../../engine/load/load_options.ts";
import { loadFollower } from "../../engine/ranks/follow_steps.ts";
import type { PlainFormat } from "../../engine/ranks/order_channel.ts";
import { mostOnOne } from "../../engine/ranks/rank_group.ts";
import { ledRanks } from "../../engine/ranks/rank_leader.ts";
import type { RankLink } from "../../engine/ranks/rank_link.ts";
import { serveEngine } from "../../engine/remote/serve_engine.ts";
import { agree } from "../../parallel/agree.ts";
import type { Communicator } from "../../parallel/communicator.ts";
import { filterDawnWarnings } from "../device/dawn_warnings.ts";
import { joinOrExit, type RankGroup } from "../mpi/join_group.ts";
import { deferred } from "../mpi/nodes.ts";
import { reportOf } from "../replicas/start_replicas.ts";
import { asOptionError } from "../serve/map_options.ts";
import { engineSetting } from "../serve/start_engine.ts";
import { quietReport, type StartReport } from "../serve/start_report.ts";
import { attentionGroupsOf } from "./attention_group_options.ts";
import {
  type FirstRank,
  loadEngine,
  loadRankGroups,
  type RankLoading,
  reportRanks,
} from "./rank_engines.ts";
import { openRankRole } from "./rank_role.ts";
import { type FromRank, type ReportMethod, TalkPort, type ToRank } from "./rank_talk.ts";

const FORMAT: PlainFormat = { pack: serialize, unpack: deserialize };

type Load = Extract<ToRank, { type: "load" }>;

/**
 * Does this process's part of a server and ends the process.
 *
 * @param given What it is to load. Default: what its launcher says.
 * @param timeout Milliseconds that ranks wait for each other while they start. Default: as its launcher says.
 */
export async function serveRank(given?: Load, timeout?: number): Promise<never> {
  filterDawnWarnings();
  const where = "over MPI, each a process of its own";
  return serveRankOf(await joinOrExit(timeout), { given, where });
}

interface RankWork {
  /** What it is to load. Default: what its launcher says. */
  readonly given?: Load | undefined;
  /** Where the ranks of its group are, as the start tells. */
  readonly where: string;
  /** Opens devices when no other rank of the process does. Default: there is none. */
  readonly inTurn?: <T>(work: () => Promise<T>) => Promise<T>;
}

/** Does a rank's part of a server and ends what the rank is. */
export async function serveRankOf(group: RankGroup, asked: RankWork): Promise<never> {
  try {
    await work(group, asked);
    return await group.finish();
  } catch (error) {
    return await group.fail(asOptionError(error));
  }
}

async function work(
  group: RankGroup,
  { given, where, inTurn = (open) => open() }: RankWork,
): Promise<void> {
  const { communicator, launcher } = group;
  const task = deferred<Load>();
  if (given !== undefined) task.resolve(given);
  const stopped = deferred<void>();
  const say = (message: FromRank) => launcher.say(message);
  const port = new TalkPort(say);
  launcher.onMessage = (message) => {
    const told = message as ToRank;
    if (told.type === "load") task.resolve(told);
    else if (told.type === "engine") port.hear(told.message);
    else stopped.resolve();
  };
  const told = await task.promise;
  // Ranks read their parts of a checkpoint at speeds of their own.
  const { deadline } = communicator;
  communicator.deadline = group.startTimeout;
  const isFirst = communicator.rank === 0;
  const whole = reportOver(say, told.reportsSteps);
  const report = isFirst ? whole : ownReport(whole);
  // Where another program has started the ranks, no launchers have met.
  await agree(communicator, "their options", told.facts);
  const hasGroups = attentionGroupsOf(told.options) !== undefined;
  // What it says of the sizes is that of the first group.
  const ofSizes = isFirst && hasGroups ? reportOf(report, 0) : report;
  const setting = await engineSetting(told.options, ofSizes, told.local, inTurn);
  const { name: adapter } = setting.opened.adapter;
  await agree(communicator, "what they compute on", { adapter });
  const own = Math.floor(setting.given.deviceMemory! / mostOnOne(setting.opened.places));
  const deviceMemory = await least(communicator, own);
  const nodes = communicator.size / told.local.ranks;
  const { options, local } = told;
  const loading: RankLoading = {
    link: linkOf(group, deadline),
    setting,
    report,
    options,
    local,
    where,
    inTurn,
    adapt: ({ experts, ...given }) => ({
      ...given,
      tensorParallelSize: undefined,
      deviceMemory,
      experts: { ...experts, nodes: Number.isInteger(nodes) ? nodes : 1 },
    }),
  };
  if (isFirst) {
    const { engine, end } = await loadFirst(loading, told.role, say);
    communicator.deadline = deadline;
    serveEngine(engine, port);
    say({ type: "loaded" });
    await Promise.race([stopped.promise, communicator.failed]);
    await end();
  } else {
    const follow = await loadFollower(setting.source, loading.link, followerOptions(loading));
    communicator.deadline = deadline;
    say({ type: "loaded" });
    await follow();
  }
}

/**
 * The link of a rank, which waits as long as at the start while models are loaded again.
 *
 * @param deadline Milliseconds that it waits for other ranks else.
 */
export function linkOf(
  { communicator, startTimeout }: Pick<RankGroup, "communicator" | "startTimeout">,
  deadline: number,
): RankLink {
  return {
    communicator,
    format: FORMAT,
    async whileLoading(work) {
      communicator.deadline = startTimeout;
      try {
        return await work();
      } finally {
        communicator.deadline = deadline;
      }
    },
  };
}

async function loadFirst(
  loading: RankLoading,
  role: Load["role"],
  say: (message: FromRank) => void,
): Promise<FirstRank> {
  const { report } = loading;
  const { engine, end } = await loadAll(loading);
  const shared = role && (await openRankRole(engine, role, { report, say }));
  return {
    engine: shared?.engine ?? engine,
    async end() {
      await engine.close();
      await shared?.close();
      await end();
    },
  };
}

/** The engine of all ranks, or those of their attention groups as one. */
async function loadAll(loading: RankLoading): Promise<FirstRank> {
  const { link, options, setting } = loading;
  if (attentionGroupsOf(options) !== undefined) return loadRankGroups(loading);
  const led = ledRanks(link);
  const engine = await loadEngine(loading, setting, led.options);
  reportRanks(engine, loading);
  return { engine, end: () => led.end() };
}

/** As the first rank loads its part. */
function followerOptions(loading: RankLoading): LoadOptions {
  const { setting, options } = loading;
  const given = {
    ...loading.adapt(setting.given),
    device: () => loading.inTurn(() => setting.opened.openNext()),
  };
  const attentionGroups = attentionGroupsOf(options);
  if (attentionGroups === undefined) return given;
  const own = optionsOfGroup({ ...given, attentionGroups }, 0);
  return { ...own, attentionGroups, headByGroup: options.enableDpLmHead };
}

/** The least that a rank has. */
async function least({ rank, size, ...group }: Communicator, own: number): Promise<number> {
  const all = new Float64Array(size);
  const exchange = { name: "device memory", counts: Array<number>(size).fill(8) };
  const part = new Uint8Array(Float64Array.of(own).buffer);
  await group.allGather(part, new Uint8Array(all.buffer), exchange);
  return all.reduce((least, one) => Math.min(least, one));
}

/** What is not the same on all ranks: their adapters, what memory they have, what fails on them. */
function ownReport({ adapter, sizes, warnings }: StartReport): StartReport {
  const nothing = quietReport({ write: () => {} });
  return { ...nothing, adapter, sizes, warnings };
}

/** Tells the launcher, which has the log. @param replica Of which it is told. Default: of all ranks. */
function reportOver(
  say: (message: FromRank) => void,
  reportsSteps: boolean,
  replica?: number,
): StartReport {
  const tell =
    (method: ReportMethod) =>
    (...values: readonly unknown[]) =>
      say({ type: "report", method, values, replica });
  return {
    model: tell("model"),
    adapter: tell("adapter"),
    sizes: tell("sizes"),
    progress: tell("progress"),
    tuning: tell("tuning"),
    attention: tell("attention"),
    family: tell("family"),
    classes: tell("classes"),
    quantized: tell("quantized"),
    warnings: tell("warnings"),
    recovery: tell("recovery"),
    rebalanced: tell("rebalanced"),
    balance: tell("balance"),
    step: reportsSteps ? tell("step") : undefined,
    ofReplica: (one) => reportOver(say, reportsSteps, one),
  };
}
