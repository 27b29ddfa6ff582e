/**
 * Replicas of a model on several machines, as node 0 starts them: its own ones, and those that the
 * other nodes come with.
 *
 * @module
 */
import { Checkpoint } from "../../checkpoint/checkpoint.ts";
import { modelHash } from "../../checkpoint/model_hash.ts";
import { type OpenedPort, openPort, RemoteEngine } from "../../engine/remote/remote_engine.ts";
import { CapacityError, GroupError, WorkerError } from "../../errors.ts";
import type { EngineStatus, GenerationChunk, GenerationRequest } from "../../generation.ts";
import type { Facts } from "../../parallel/agree.ts";
import { openFolder } from "../files.ts";
import { resolveModel } from "../hub/resolve_model.ts";
import { EXIT, LaunchError } from "../mpi/launch_error.ts";
import { deferred } from "../mpi/nodes.ts";
import type { GroupPlace } from "../mpi/rank_options.ts";
import type { Logger } from "../observe/logger.ts";
import type { LaunchOptions } from "../options/options.ts";
import { defaultModelPath, packageVersion } from "../package_root.ts";
import { startRanks } from "../ranks/group_engine.ts";
import { engineOptionsOf, factsOf } from "../ranks/rank_place.ts";
import { RestartingEngine, refusal } from "../ranks/restarting_engine.ts";
import { Restarts } from "../ranks/restarts.ts";
import type { StartEngine, StartedEngine } from "../serve/start_engine.ts";
import { type FirstWord, MAX_NODE_UNSENT_BYTES, type NodePort } from "./node_port.ts";
import { ReplicaNodes } from "./replica_nodes.ts";
import { REPLICA_OPTIONS } from "./replica_options.ts";
import { startReplicas } from "./start_replicas.ts";

/** Node 0 of several machines with replicas. */
export interface HeadOfReplicas {
  readonly place: GroupPlace;
  readonly log: Logger;
}

/** What starts the replicas of all nodes; where one does not start, none of this node is left. */
export function startReplicasOfNodes(
  options: LaunchOptions,
  { place, log }: HeadOfReplicas,
): StartEngine {
  const { dpSize, restart } = options;
  const replicasPerNode = dpSize / place.nodes;
  const about =
    `Replicas: ${dpSize} answer different requests, ${replicasPerNode} on each of ${place.nodes} ` +
    "machines, each with weights and a cache of its own";
  return async (given, report) => {
    const facts = await replicaFacts(options);
    const { timeout, nodes: machines, address } = place;
    const meeting = { address: address!, nodes: machines, replicasPerNode, facts, timeout };
    const nodes = await ReplicaNodes.listen(meeting);
    const startOwn = startRanks({ place: ofOneNode(place), restart, log });
    const first: Partial<FirstReplica> = {};
    const start: StartEngine = async (own, ownReport, part) => {
      const { replica } = part!;
      if (replica >= replicasPerNode) {
        const node = Math.floor(replica / replicasPerNode);
        const logOfReplica = log.ofReplica(replica);
        return RestartingEngine.start({
          log: logOfReplica,
          restarts: new Restarts(restart, logOfReplica),
          start: async (signal) => {
            const port = await nodes.connection(replica, signal);
            return openReplica(port, { node, signal, first: first as FirstReplica });
          },
        });
      }
      const noted = {
        ...ownReport,
        adapter: (adapter: Parameters<typeof ownReport.adapter>[0]) => {
          first.adapter ??= adapter.name;
          ownReport.adapter(adapter);
        },
      };
      const engine = await startOwn(own, noted, { ...part!, replicas: replicasPerNode });
      first.path ??= engine.model.path;
      return engine;
    };
    try {
      await nodes.meet();
      const engine = await startReplicas(start, options, about)(given, report);
      const close = engine.close.bind(engine);
      return Object.assign(engine, { close: () => close().finally(() => nodes.close()) });
    } catch (error) {
      nodes.close();
      throw error;
    }
  };
}

/** A node whose replicas have all of their ranks there. */
export function ofOneNode({ ranksPerNode, timeout }: GroupPlace): GroupPlace {
  return { nodes: 1, node: 0, ranksPerNode, address: undefined, timeout };
}

/** What all nodes must have alike: where the model is is each node's matter, what it is is not. */
export async function replicaFacts(options: LaunchOptions): Promise<Facts> {
  const { modelPath, revision, nnodes, dpSize, restart } = options;
  const { folder } = await resolveModel(modelPath ?? defaultModelPath(), { revision });
  const source = await openFolder(folder);
  try {
    return {
      version: packageVersion(),
      "--nnodes": nnodes!,
      [REPLICA_OPTIONS.dpSize.flags[0]]: dpSize,
      "--restart": restart,
      ...factsOf(engineOptionsOf(options)),
      "the hash of the weights": await modelHash(await Checkpoint.open(source)),
    };
  } finally {
    await source.close();
  }
}

/** What the first replica has, which is on this node. */
interface FirstReplica {
  path: string;
  adapter: string;
}

interface ReplicaOpening {
  readonly node: number;
  readonly first: FirstReplica;
  /** Ends the wait for the replica to load. */
  readonly signal: AbortSignal;
}

/**
 * The engine of a replica on another node, once it is loaded there.
 *
 * @throws {LaunchError} where it could not be loaded, computes on another kind of adapter, or is lost.
 */
export async function openReplica(
  port: NodePort,
  { node, first, signal }: ReplicaOpening,
): Promise<StartedEngine> {
  try {
    const word = await firstWord(port, node, signal);
    if (word.type === "failed") {
      const state = `Cannot load a replica on node ${node}: ${word.reason}`;
      throw new LaunchError(state, word.exitCode);
    }
    if (word.adapter !== first.adapter) {
      const state = `${first.adapter} on node 0, ${word.adapter} on node ${node}`;
      throw new LaunchError(
        `Cannot start replicas on adapters of different kinds: ${state}`,
        EXIT.failed,
      );
    }
    // It may have ended behind its first word, and then would never answer.
    if (port.isOver) throw lostNode(node, (await port.left) ?? CLOSED);
    const { opened } = await openPort(port, { signal }).catch((error: unknown) => {
      throw error instanceof WorkerError ? lostNode(node, error.message) : error;
    });
    const model = { ...opened.model, path: first.path };
    return new NodeEngine({ port, opened: { ...opened, model } }, node);
  } catch (error) {
    port.close();
    throw error;
  }
}

async function firstWord(port: NodePort, node: number, signal: AbortSignal): Promise<FirstWord> {
  const word = deferred<FirstWord>();
  const giveUp = () => word.reject(signal.reason);
  if (signal.aborted) giveUp();
  signal.addEventListener("abort", giveUp, { once: true });
  port.left.then((problem) => word.reject(lostNode(node, problem ?? CLOSED)));
  port.onMessage = (message) => {
    port.onMessage = undefined;
    word.resolve(message as FirstWord);
  };
  try {
    return await word.promise;
  } finally {
    signal.removeEventListener("abort", giveUp);
  }
}

const CLOSED = "its connection is closed";

const lostNode = (node: number, problem: string) =>
  new LaunchError(`Cannot go on without the replica on node ${node}: ${problem}`, EXIT.lost);

class NodeEngine extends RemoteEngine implements StartedEngine {
  readonly lost: Promise<never>;
  readonly #node: number;
  readonly #port: NodePort;
  #isLeaving = false;
  #problem = "";

  constructor(opened: OpenedPort & { readonly port: NodePort }, node: number) {
    super(opened);
    this.#port = opened.port;
    this.#node = node;
    const { promise, reject } = deferred<never>();
    this.lost = promise;
    this.ended.then(() => {
      if (!this.#isLeaving) reject(lostNode(node, this.#problem));
    });
  }

  override generate(
    request: GenerationRequest & { readonly signal?: AbortSignal },
  ): AsyncIterableIterator<GenerationChunk, undefined> {
    if (this.#port.isLeaving) {
      const state = `node ${this.#node}, which has the replica, is being stopped`;
      return refusal(new GroupError(`Cannot generate: ${state}`));
    }
    if (!this.#port.isFull) return super.generate(request);
    const state = `${MAX_NODE_UNSENT_BYTES} bytes wait to be sent to node ${this.#node}`;
    return refusal(new CapacityError("memory for requests", MAX_NODE_UNSENT_BYTES, state));
  }

  override status(): EngineStatus {
    const status = super.status();
    return this.#port.isLeaving ? { ...status, draining: true } : status;
  }

  override close(): Promise<void> {
    this.#isLeaving = true;
    return super.close();
  }

  protected override failureOf(problem: string, cause: unknown): GroupError {
    this.#problem = problem;
    return new GroupError(`Cannot generate: the replica is on node ${this.#node}: ${problem}`, {
      cause,
    });
  }
}
