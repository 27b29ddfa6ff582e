/**
 * Starts several replicas of a model, one after the other.
 *
 * @module
 */
import type { SharedLayout } from "../../cache/page_form.ts";
import { UnsupportedError } from "../../errors.ts";
import { ReplicatedEngine } from "../../parallel/replicas/replicated_engine.ts";
import type { StartEngine, StartedEngine, StartOptions } from "../serve/start_engine.ts";
import type { StartReport } from "../serve/start_report.ts";
import { joinedRooms } from "./joined_rooms.ts";
import type { ReplicaOptions } from "./replica_options.ts";
import { sharedServices } from "./shared_services.ts";

/**
 * @param start Starts one of them.
 * @param about What is said of them, in front of how they are chosen. Default: as of replicas.
 * @returns What starts as many as options ask for; where one does not start, none is left.
 */
export function startReplicas(
  start: StartEngine,
  { dpSize, loadBalanceMethod }: ReplicaOptions,
  about = `Replicas: ${dpSize} answer different requests, each with weights and a cache of its own`,
): StartEngine {
  return async (options, report) => {
    const services = sharedServices();
    const engines: StartedEngine[] = [];
    try {
      for (let replica = 0; replica < dpSize; replica++) {
        const part = { replica, replicas: dpSize, services };
        const own = reportOf(report, replica);
        const engine = await start(optionsOf(options, replica), own, part);
        engines.push(engine);
        engine.lost?.catch((error: Error) => own.warnings([error.message]));
      }
      const engine = new ReplicatedEngine(engines, { loadBalanceMethod });
      const movesPages = (options.disaggregationMode ?? "null") !== "null";
      report.sizes([`${about}; they are chosen by ${loadBalanceMethod ?? "round_robin"}`]);
      const lost = lastLoss(engines);
      return Object.assign(engine, {
        pageLayout: movesPages ? layoutOf(engines) : undefined,
        roomCounts: roomsOf(engines),
        freeDevice: () => freeDevices(engines),
        ...(lost && { lost }),
      });
    } catch (error) {
      await Promise.allSettled(engines.map((engine) => engine.close()));
      freeDevices(engines);
      throw error;
    }
  };
}

/**
 * Of the pages of each of them, so that any may have those of a prompt; undefined where they are not moved.
 *
 * @throws {UnsupportedError} where a device has one of them compute otherwise.
 */
function layoutOf(engines: readonly StartedEngine[]): SharedLayout | undefined {
  const [first, ...others] = engines.map(({ pageLayout }) => pageLayout);
  const isOther = (layout: SharedLayout | undefined) =>
    JSON.stringify(layout) !== JSON.stringify(first);
  if (!others.some(isOther)) return first;
  throw new UnsupportedError("--dp-size", "pages of one replica are not as those of another");
}

/** Undefined where their rooms, if they have any, are here. */
function roomsOf(engines: readonly StartedEngine[]): StartedEngine["roomCounts"] {
  const counts = engines.flatMap(({ roomCounts }) => roomCounts ?? []);
  if (counts.length === 0) return undefined;
  return () => joinedRooms(counts.map((count) => count()));
}

/** Rejects once all of them are gone for good; undefined where that ends no server. */
function lastLoss(engines: readonly StartedEngine[]): Promise<never> | undefined {
  const losses = engines.flatMap(({ lost }) => lost ?? []);
  if (losses.length < engines.length) return undefined;
  return Promise.any(losses).catch(({ errors }: AggregateError) => {
    throw errors.at(-1);
  });
}

function freeDevices(engines: readonly StartedEngine[]): void {
  for (const engine of engines) engine.freeDevice?.();
}

/** Requests without a seed draw different answers on different replicas. */
export function optionsOf(options: StartOptions, replica: number): StartOptions {
  const { randomSeed } = options;
  if (randomSeed === undefined) return options;
  return { ...options, randomSeed: (randomSeed + replica) % 2 ** 32 };
}

/** What is the same of all replicas is said once. @param isFirst Whether it is the one that says it. */
export function reportOf(
  report: StartReport,
  replica: number,
  isFirst = replica === 0,
): StartReport {
  const own = report.ofReplica?.(replica) ?? report;
  const { model, attention, family } = report;
  if (isFirst) return { ...own, model, attention, family };
  return { ...own, model: () => {}, attention: () => {}, family: () => {} };
}
