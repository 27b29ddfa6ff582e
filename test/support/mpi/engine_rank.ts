/**
 * A rank of an engine, for tests: the first tells what was answered.
 *
 * @module
 */
import { setTimeout } from "node:timers/promises";
import { deserialize, serialize } from "node:v8";
import { Engine } from "../../../src/engine/engine.ts";
import type { RebalanceEvent } from "../../../src/engine/experts/expert_balancer.ts";
import { loadGroupEngines, optionsOfGroup } from "../../../src/engine/groups/attention_groups.ts";
import { ledAttentionGroups } from "../../../src/engine/groups/led_groups.ts";
import type { LoadOptions } from "../../../src/engine/load/load_options.ts";
import { loadFollower } from "../../../src/engine/ranks/follow_steps.ts";
import { ledRanks } from "../../../src/engine/ranks/rank_leader.ts";
import type { RankLink } from "../../../src/engine/ranks/rank_link.ts";
import type { GenerationEngine } from "../../../src/generation.ts";
import { deviceFactory } from "../../../src/node/device/device.ts";
import type { MpiCommunicator } from "../../../src/node/mpi/mpi_communicator.ts";
import { prefixFiles } from "../../../src/node/prefix_files.ts";
import type { Communicator } from "../../../src/parallel/communicator.ts";
import { ReplicatedEngine } from "../../../src/parallel/replicas/replicated_engine.ts";
import { folderSource } from "../checkpoints/folder_source.ts";
import {
  answersOf,
  type EngineAnswers,
  type EngineTask,
  type ExchangeFigures,
} from "./engine_answers.ts";

/**
 * @param inTurn Opens a device when no other rank of this process does.
 * @returns What the first rank has answered.
 */
export async function runEngineRank(
  communicator: MpiCommunicator,
  task: EngineTask,
  inTurn: <T>(work: () => Promise<T>) => Promise<T> = (work) => work(),
): Promise<EngineAnswers | undefined> {
  // Ranks that share two cores with other tests come late.
  communicator.deadline = 300_000;
  const { rank } = communicator;
  const open = deviceFactory();
  let device: GPUDevice | undefined;
  const options = {
    ...{ triesInvariance: false, recoveryWaits: [0] },
    ...task.options,
    ...(task.draftModel && { draftModel: folderSource(task.draftModel) }),
    ...(task.prefixes && { prefixStore: { storage: prefixFiles(task.prefixes), maxWait: 60 } }),
    device: async () => {
      device = await inTurn(open);
      return device;
    },
  } as LoadOptions;
  const exchanges: ExchangeFigures = { count: 0, milliseconds: 0 };
  const losses = (task.losses ?? []).filter((loss) => loss.rank === rank);
  const link: RankLink = {
    communicator: watched(communicator, {
      figures: exchanges,
      link: task.link,
      onOrder: (order) => {
        if (losses.some((loss) => loss.order === order)) device!.destroy();
      },
    }),
    format: { pack: serialize, unpack: deserialize },
  };
  const { groups = 1 } = task;
  if (rank > 0) {
    const own = optionsOfGroup({ ...options, attentionGroups: groups }, 0);
    const given = groups === 1 ? options : { ...own, attentionGroups: groups };
    await (await loadFollower(folderSource(task.model), link, given))();
    return undefined;
  }
  let moved = 0;
  const onRebalance = (event: RebalanceEvent) => {
    if (event.kind === "finished") moved += event.moved;
  };
  const { engine, end } = await loadFirst({ ...options, onRebalance }, link, task);
  // Those of the load are not asked for.
  Object.assign(exchanges, { count: 0, milliseconds: 0 });
  const told = await answersOf(engine, task, () => moved);
  const steps = { ...exchanges };
  await end();
  return { ...told, exchanges: steps };
}

/** The engine of all ranks, on the first of them, and how their work ends. */
async function loadFirst(
  options: LoadOptions,
  link: RankLink,
  { model, groups: attentionGroups = 1 }: EngineTask,
): Promise<{ readonly engine: GenerationEngine; readonly end: () => Promise<void> }> {
  if (attentionGroups === 1) {
    const led = ledRanks(link);
    const engine = await Engine.load(folderSource(model), { ...options, ...led.options });
    return { engine, end: () => led.end() };
  }
  const led = ledAttentionGroups(link, attentionGroups);
  const open = () => folderSource(model);
  const engines = await loadGroupEngines(open, { ...options, attentionGroups }, led);
  return { engine: new ReplicatedEngine(engines), end: () => led.end() };
}

/** Counts exchanges of layers, and tells the number of each order, once all ranks have it. */
function watched(
  group: MpiCommunicator,
  {
    figures,
    link,
    onOrder,
  }: {
    readonly figures: ExchangeFigures;
    readonly link: EngineTask["link"];
    readonly onOrder: (order: number) => void;
  },
): Communicator {
  let orders = 0;
  const exchanged = async (bytes: number, exchange: Promise<void>) => {
    const begun = performance.now();
    await exchange;
    if (link !== undefined) {
      await setTimeout(link.milliseconds + bytes / link.bytesPerMillisecond);
    }
    figures.count += 1;
    figures.milliseconds += performance.now() - begun;
  };
  return {
    ...group,
    async allGather(part, into, exchange) {
      if (exchange.name !== "an order") {
        const received = into.length - part.length;
        return exchanged(received, group.allGather(part, into, exchange));
      }
      await group.allGather(part, into, exchange);
      orders += 1;
      onOrder(orders);
    },
    allToAll: (part, into, exchange) =>
      exchanged(into.length, group.allToAll(part, into, exchange)),
  };
}
