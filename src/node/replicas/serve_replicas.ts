/**
 * A node above 0 of replicas on several machines: it loads its own ones, and node 0 sends them their
 * requests.
 *
 * @module
 */
import type { EngineAnswer } from "../../engine/remote/engine_messages.ts";
import { type ServedPort, servePort } from "../../engine/remote/serve_engine.ts";
import { EXIT, LaunchError } from "../mpi/launch_error.ts";
import type { GroupPlace } from "../mpi/rank_options.ts";
import type { Logger } from "../observe/logger.ts";
import type { LaunchOptions } from "../options/options.ts";
import { startRanks } from "../ranks/group_engine.ts";
import { engineOptionsOf } from "../ranks/rank_place.ts";
import type { StartedEngine } from "../serve/start_engine.ts";
import { lineReport } from "../serve/start_report.ts";
import { joinNode0 } from "./join_replicas.ts";
import type { FirstWord, NodePort } from "./node_port.ts";
import { ofOneNode, replicaFacts } from "./replicas_of_nodes.ts";
import { sharedServices } from "./shared_services.ts";
import { optionsOf, reportOf } from "./start_replicas.ts";

/** A node above 0, and when its work ends. */
export interface MemberWork {
  readonly place: GroupPlace;
  readonly log: Logger;
  /** Ends the work, and rejects with its reason. */
  readonly signal: AbortSignal;
  /** Node 0 and this one have met: the work ends when node 0 says so. */
  readonly onMet: () => void;
  /** Resolves where this node is to end once its requests are answered. */
  readonly stopping: Promise<void>;
  /** All replicas of this node are loaded. */
  readonly onLoaded: () => void;
}

/**
 * Resolves once node 0 has ended them in order, or this node is stopped and their requests are answered.
 *
 * @throws {LaunchError} where node 0 is not there in time, refuses this node or is lost, or none of the
 * replicas is left. No process of them is left here then.
 */
export async function serveReplicas(options: LaunchOptions, given: MemberWork): Promise<void> {
  const { place, signal } = given;
  const facts = await replicaFacts(options);
  const count = options.dpSize / place.nodes;
  const numbers = Array.from({ length: count }, (_, i) => place.node * count + i);
  const ports: NodePort[] = [];
  const ending = new AbortController();
  const stop = () => ending.abort(signal.reason);
  if (signal.aborted) stop();
  signal.addEventListener("abort", stop, { once: true });
  const { address, timeout } = place;
  try {
    for (const number of numbers) {
      const join = { address: address!, facts, timeout, signal: ending.signal };
      const port = await joinNode0(number, join);
      ports.push(port);
      port.left.then((problem) => {
        if (problem !== undefined) ending.abort(lostNode0(problem));
      });
    }
    given.onMet();
    await serveAll(options, { ...given, signal: ending.signal, ports, numbers });
  } finally {
    signal.removeEventListener("abort", stop);
    for (const port of ports) port.close();
  }
}

const lostNode0 = (problem: string) =>
  new LaunchError(`Cannot go on without node 0: ${problem}`, EXIT.lost);

interface Joined extends MemberWork {
  readonly ports: readonly NodePort[];
  /** Of all machines' replicas those that this one has. */
  readonly numbers: readonly number[];
}

async function serveAll(options: LaunchOptions, given: Joined): Promise<void> {
  const { place, ports, numbers, signal, stopping, onLoaded } = given;
  const engines: StartedEngine[] = [];
  const losses: Error[] = [];
  const served: ServedPort[] = [];
  try {
    for (const [i, port] of ports.entries()) {
      const { engine, adapter } = await loadReplica(options, given, i);
      engines.push(engine);
      port.post({ type: "loaded", adapter } satisfies FirstWord);
      const one = servePort(engine, port);
      served.push(one);
      engine.lost?.catch((error: Error) => {
        losses.push(error);
        given.log.ofReplica(numbers[i]!).line("warning", `Warning: ${error.message}`);
        port.post([{ type: "ended", problem: error.message } satisfies EngineAnswer]);
        one.end(error.message);
      });
    }
    onLoaded();
    void stopping.then(() => {
      for (const [i, port] of ports.entries()) {
        void port.leave().then(() => served[i]!.drain(`node ${place.node} is stopped`));
      }
    });
    await untilAborted(Promise.all(ports.map(({ left }) => left)), signal);
    if (losses.length === engines.length) throw losses.at(-1);
  } finally {
    for (const one of served) one.end("the engine is closed");
    await Promise.allSettled(engines.map((engine) => engine.close()));
  }
}

/** @param i Which of this node's replicas. */
async function loadReplica(
  options: LaunchOptions,
  { place, log, signal, ports, numbers }: Joined,
  i: number,
): Promise<{ readonly engine: StartedEngine; readonly adapter: string }> {
  signal.throwIfAborted();
  const number = numbers[i]!;
  let adapter = "";
  const report = reportOf(lineReport(log, options.decodeLogInterval), number, i === 0);
  const noted: typeof report = {
    ...report,
    adapter: (found) => {
      adapter = found.name;
      report.adapter(found);
    },
  };
  const start = startRanks({ place: ofOneNode(place), restart: options.restart, log, signal });
  const part = { replica: i, replicas: numbers.length, number, services: sharedServices() };
  try {
    const engine = await start(optionsOf(engineOptionsOf(options), number), noted, part);
    return { engine, adapter };
  } catch (error) {
    const exitCode = error instanceof LaunchError ? error.exitCode : EXIT.failed;
    const failed: FirstWord = { type: "failed", reason: (error as Error).message, exitCode };
    ports[i]!.post(failed);
    throw error;
  }
}

/** @throws the signal's reason. */
async function untilAborted(work: Promise<unknown>, signal: AbortSignal): Promise<void> {
  signal.throwIfAborted();
  let giveUp = () => {};
  const aborted = new Promise<never>((_, reject) => {
    giveUp = () => reject(signal.reason);
    signal.addEventListener("abort", giveUp, { once: true });
  });
  try {
    await Promise.race([work, aborted]);
  } finally {
    signal.removeEventListener("abort", giveUp);
  }
}
