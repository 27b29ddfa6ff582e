/**
 * A rank of a server: the first has the engine, and the others follow it.
 *
 * @module
 */
import { deserialize, serialize } from "node:v8";
import { Engine } from "../../engine/engine.ts";
import type { LoadOptions } from "../../engine/load/load_options.ts";
import { loadFollower } from "../../engine/ranks/follow_steps.ts";
import type { PlainFormat } from "../../engine/ranks/order_channel.ts";
import { mostOnOne } from "../../engine/ranks/rank_group.ts";
import { type LedRanks, ledRanks } from "../../engine/ranks/rank_leader.ts";
import type { RankLink } from "../../engine/ranks/rank_link.ts";
import { serveEngine } from "../../engine/remote/serve_engine.ts";
import { agree } from "../../parallel/agree.ts";
import type { Communicator } from "../../parallel/communicator.ts";
import { filterDawnWarnings } from "../device/dawn_warnings.ts";
import { joinOrExit, type RankGroup } from "../mpi/join_group.ts";
import { deferred } from "../mpi/nodes.ts";
import { describeRanks } from "../serve/describe_sizes.ts";
import { asOptionError } from "../serve/map_options.ts";
import {
  balanceOf,
  type EngineSetting,
  engineSetting,
  reportLoaded,
} from "../serve/start_engine.ts";
import { quietReport, type StartReport } from "../serve/start_report.ts";
import { openRankRole } from "./rank_role.ts";
import { type FromRank, type ReportMethod, TalkPort, type ToRank } from "./rank_talk.ts";

const FORMAT: PlainFormat = { pack: serialize, unpack: deserialize };

type Load = Extract<ToRank, { type: "load" }>;

/**
 * Does this process's part of a server and ends the process.
 *
 * @param given What it is to load. Default: what its launcher says.
 */
export async function serveRank(given?: Load): Promise<never> {
  filterDawnWarnings();
  const group = await joinOrExit();
  try {
    await work(group, given);
    return await group.finish();
  } catch (error) {
    return await group.fail(asOptionError(error));
  }
}

async function work(group: RankGroup, given: Load | undefined): Promise<void> {
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
  const setting = await engineSetting(told.options, report, told.local);
  const { name: adapter } = setting.opened.adapter;
  await agree(communicator, "what they compute on", { adapter });
  const { deviceMemory: asked, ...rest } = setting.given;
  const own = Math.floor(asked! / mostOnOne(setting.opened.places));
  const deviceMemory = await least(communicator, own);
  const nodes = communicator.size / told.local.ranks;
  const experts = { ...rest.experts, nodes: Number.isInteger(nodes) ? nodes : 1 };
  const all = { ...rest, tensorParallelSize: undefined, deviceMemory, experts };
  const link = linkOf(group, deadline);
  const { options } = told;
  const loading = { link, setting: { ...setting, given: all }, report, options };
  if (isFirst) {
    const led = ledRanks(link);
    const engine = await loadFirst(loading, led);
    communicator.deadline = deadline;
    reportLoaded(engine, told.options, report);
    const where = "over MPI, each a process of its own";
    report.sizes(describeRanks(communicator.size, engine.unshared, where));
    const role = told.role && (await openRankRole(engine, told.role, { report, say }));
    serveEngine(role?.engine ?? engine, port);
    say({ type: "loaded" });
    await Promise.race([stopped.promise, communicator.failed]);
    await engine.close();
    await role?.close();
    await led.end();
  } else {
    const follow = await loadFollower(setting.source, link, withDevice(loading));
    communicator.deadline = deadline;
    say({ type: "loaded" });
    await follow();
  }
}

/** The link of a rank, which waits as long as at the start while models are loaded again. */
function linkOf({ communicator, startTimeout }: RankGroup, deadline: number): RankLink {
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

interface Loading {
  readonly link: RankLink;
  readonly setting: EngineSetting;
  readonly report: StartReport;
  readonly options: Load["options"];
}

async function loadFirst(loading: Loading, led: LedRanks): Promise<Engine> {
  const { setting, report, options } = loading;
  const engine: Engine = await Engine.load(setting.source, {
    ...withDevice(loading),
    ...led.options,
    onRecovery: (event) => report.recovery(event),
    onRebalance: (event) => report.rebalanced(event),
    ...balanceOf(options, report),
    onStep: report.step && ((step) => report.step?.(step, engine.status())),
  });
  return engine;
}

function withDevice({ setting }: Loading): LoadOptions {
  return { ...setting.given, device: () => setting.opened.openNext() };
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

/** Tells the launcher, which has the log. */
function reportOver(say: (message: FromRank) => void, reportsSteps: boolean): StartReport {
  const tell =
    (method: ReportMethod) =>
    (...values: readonly unknown[]) =>
      say({ type: "report", method, values });
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
  };
}
