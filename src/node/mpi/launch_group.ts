/**
 * Starts the ranks of this node, with those of other nodes, and watches over them until all have
 * done their work or one is lost.
 *
 * The launcher has no part in MPI: it stays free to act when ranks wait.
 *
 * @module
 */
import type { Facts } from "../../parallel/agree.ts";
import type { Environment } from "../hub/hub_settings.ts";
import { packageVersion } from "../package_root.ts";
import { buildShim } from "./build_shim.ts";
import { meetAsHead } from "./head_node.ts";
import { EXIT, LaunchError } from "./launch_error.ts";
import { LocalRanks } from "./local_ranks.ts";
import { meetAsMember } from "./member_node.ts";
import { importKoffi } from "./mpi_library.ts";
import { type Address, deferred, type Nodes, type NodesOptions } from "./nodes.ts";
import { ofOuterLaunchers } from "./outer_launcher.ts";
import { PmiService } from "./pmi_service.ts";
import { RANK_VARIABLES } from "./rank_messages.ts";

/** Milliseconds between signs of life, of launchers to each other and to their ranks. */
const BEAT = 2000;

export interface GroupOptions {
  /** Machines of the group, or what counts as such. */
  readonly nodes: number;
  /** Which of them this is. */
  readonly node: number;
  readonly ranksPerNode: number;
  /** Where node 0 waits for the others. A group of one node needs none. */
  readonly address: Address | undefined;
  /** Milliseconds in which all nodes and ranks must be there. */
  readonly timeout: number;
  /** What all nodes must have alike, beside what is here. */
  readonly facts?: Facts;
  /** The program of a rank: command, its arguments. */
  readonly command: readonly string[];
  readonly env?: Environment;
  /**
   * Whether the one rank here is that for which another program's launcher has started this process:
   * it joins the group of that launcher.
   */
  readonly isOfOuterGroup?: boolean;
  /** CPUs of each rank of this node. Default: any. */
  readonly cpus?: readonly (readonly number[])[] | undefined;
  /** Milliseconds between signs of life. */
  readonly beat?: number;
  /** Ends the group, for its reason where that is a `LaunchError`. */
  readonly signal?: AbortSignal | undefined;
  /** The launchers of all nodes have met. */
  readonly onMet?: (() => void) | undefined;
  /** All ranks of this node are there; `say` takes plain data to one of them. */
  readonly onStart?: (say: (message: unknown, rank: number) => void) => void;
  /** What the program of a rank of this node says. */
  readonly onMessage?: (message: unknown, rank: number) => void;
}

/**
 * Resolves once the ranks of all nodes have done their work.
 *
 * @throws {LaunchError} with the exit code that says why the group has ended or did not start. No
 * process of it is left on this node then.
 * @throws {UnsupportedError} where this machine has no MPI.
 */
export async function launchGroup(options: GroupOptions): Promise<void> {
  const { nodes, node, ranksPerNode, address, timeout, facts, beat = BEAT, signal } = options;
  if (nodes > 1 && address === undefined) {
    throw new LaunchError("Cannot join nodes: --dist-init-addr says where", EXIT.failed);
  }
  const shim = buildShim(options.env === undefined ? {} : { env: options.env });
  // Every rank would find it out by itself.
  await importKoffi();
  const meeting: NodesOptions = {
    nodes,
    node,
    address,
    timeout,
    beat,
    signal,
    facts: { version: packageVersion(), nnodes: nodes, "ranks of a node": ranksPerNode, ...facts },
  };
  const others = await (node === 0 ? meetAsHead(meeting) : meetAsMember(meeting));
  options.onMet?.();
  await new Group(options, others, shim.path).run();
}

class Group {
  readonly #options: GroupOptions;
  readonly #nodes: Nodes;
  readonly #ranks: LocalRanks;
  readonly #failed = deferred<never>();
  #failure: LaunchError | undefined;

  constructor(options: GroupOptions, nodes: Nodes, shim: string) {
    this.#options = options;
    this.#nodes = nodes;
    const { ranksPerNode, node, command, beat = BEAT } = options;
    const size = options.nodes * ranksPerNode;
    const pmi = new PmiService({
      size,
      nodes: options.nodes,
      localRanks: ranksPerNode,
      fence: (own) => nodes.fence(own),
      onFailure: (rank, problem) =>
        this.#fail(new LaunchError(`Cannot go on without rank ${rank}: ${problem}`, EXIT.lost)),
    });
    nodes.onFailure = (error) => this.#fail(error);
    this.#ranks = new LocalRanks({
      first: node * ranksPerNode,
      count: ranksPerNode,
      size,
      command,
      beat,
      env: rankEnvironment(options, shim),
      cpus: options.cpus,
      serve: options.isOfOuterGroup ? undefined : (stream, rank) => pmi.serve(stream, rank),
      onMessage: options.onMessage,
      onFailure: (error) => this.#fail(error),
    });
  }

  async run(): Promise<void> {
    const { signal } = this.#options;
    const stop = () => {
      const stopped = new LaunchError("Cannot go on with the group: it is stopped", EXIT.failed);
      this.#fail(signal?.reason instanceof LaunchError ? signal.reason : stopped);
    };
    if (signal?.aborted) stop();
    signal?.addEventListener("abort", stop, { once: true });
    try {
      await Promise.race([this.#work(), this.#failed.promise]);
    } catch (error) {
      await this.#ranks.stop((error as Error).message);
      throw error;
    } finally {
      signal?.removeEventListener("abort", stop);
      this.#nodes.close();
    }
  }

  async #work(): Promise<void> {
    const { timeout, onStart } = this.#options;
    const timer = setTimeout(() => this.#fail(this.#late()), timeout);
    this.#failed.promise.catch(() => clearTimeout(timer));
    await this.#ranks.started;
    clearTimeout(timer);
    onStart?.((message, rank) => this.#ranks.say(message, rank));
    await this.#ranks.done;
    await this.#nodes.finish();
    await this.#ranks.release();
  }

  #late(): LaunchError {
    const { late } = this.#ranks;
    const named = `rank${late.length === 1 ? "" : "s"} ${late.join(", ")}`;
    const state = `not ready ${this.#options.timeout / 1000} s after its start`;
    return new LaunchError(`Cannot start ${named}: ${state}`, EXIT.timeout);
  }

  /** The first reason counts, on all nodes. */
  #fail(error: LaunchError): void {
    if (this.#failure !== undefined) return;
    this.#failure = error;
    this.#nodes.fail(error);
    this.#failed.reject(error);
  }
}

/** What a rank finds: nothing of launchers around this one, unless it is theirs. */
function rankEnvironment(options: GroupOptions, shim: string) {
  const { env = process.env, timeout, beat = BEAT, isOfOuterGroup = false } = options;
  const rank: Record<string, string | undefined> = {
    ...env,
    [RANK_VARIABLES.launcher]: `${process.pid}`,
    [RANK_VARIABLES.shim]: shim,
    [RANK_VARIABLES.beat]: `${beat}`,
    [RANK_VARIABLES.timeout]: `${timeout}`,
  };
  if (!isOfOuterGroup) for (const name of ofOuterLaunchers(env)) delete rank[name];
  return rank;
}
