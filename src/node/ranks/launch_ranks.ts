/**
 * Starts the ranks of this node that are to serve a model.
 *
 * @module
 */
import type { Facts } from "../../parallel/agree.ts";
import type { RoleOptions } from "../disaggregation/disaggregation_options.ts";
import { launchGroup } from "../mpi/launch_group.ts";
import type { OuterGroup } from "../mpi/outer_launcher.ts";
import type { GroupPlace } from "../mpi/rank_options.ts";
import { rankProgram } from "../mpi/rank_program.ts";
import type { ReplicaPart, StartOptions } from "../serve/start_engine.ts";
import { allowedCpus, bindsRanks, cpusOfRanks } from "./rank_cpus.ts";
import { factsOf } from "./rank_place.ts";
import type { FromRank, ToRank } from "./rank_talk.ts";

export interface LaunchRanksOptions {
  readonly place: GroupPlace;
  /** The group of another program's launcher, where the one rank here is of that. */
  readonly outer?: OuterGroup | undefined;
  /** The replica whose ranks they are, of several that have as many on this machine. */
  readonly part?: Pick<ReplicaPart, "replica" | "replicas"> | undefined;
  readonly options: StartOptions;
  /** What the first rank shares with other servers, if it does. */
  readonly role?: RoleOptions | undefined;
  /** What launchers compare beside the engine's options. */
  readonly facts?: Facts;
  readonly reportsSteps: boolean;
  /** Says to which CPUs ranks are bound, if they are. */
  readonly onBound: (sentence: string) => void;
  /** The launchers of all nodes have met. */
  readonly onMet?: () => void;
  /** The ranks of this node have started; `say` takes messages to one of them. */
  readonly onStart?: (say: (message: ToRank, rank: number) => void) => void;
  readonly onMessage: (message: FromRank, rank: number) => void;
  /** Ends the group. */
  readonly signal?: AbortSignal | undefined;
}

/**
 * Resolves once the ranks of all nodes have done their work.
 *
 * @throws {LaunchError} with the exit code that says why the group has ended or did not start.
 * @throws {UnsupportedError} where this machine has no MPI.
 */
export function launchRanks(given: LaunchRanksOptions): Promise<void> {
  const { place, outer, part, options, role, reportsSteps, onBound, onStart, onMessage, signal } =
    given;
  const { node, ranksPerNode } = place;
  const binds = outer === undefined && bindsRanks(process.env);
  const facts = { ...factsOf(options), ...given.facts };
  return launchGroup({
    ...place,
    isOfOuterGroup: outer !== undefined,
    cpus: binds ? boundRanks(given, onBound) : undefined,
    facts,
    command: [process.execPath, rankProgram(), "serve"],
    signal,
    onMet: given.onMet,
    onStart: (say) => {
      const first = node * ranksPerNode;
      for (let rank = 0; rank < ranksPerNode; rank++) {
        const { replica = 0, replicas = 1 } = part ?? {};
        const local = outer?.local ?? { rank, ranks: ranksPerNode, replica, replicas };
        const load: ToRank = { type: "load", options, role, facts, local, reportsSteps };
        say(load, first + rank);
      }
      onStart?.(say);
    },
    onMessage: (message, rank) => onMessage(message as FromRank, rank),
  });
}

function boundRanks(
  { place: { node, ranksPerNode }, part }: Pick<LaunchRanksOptions, "place" | "part">,
  onBound: (sentence: string) => void,
): readonly (readonly number[])[] | undefined {
  const allowed = allowedCpus();
  if (allowed === undefined) {
    onBound("CPUs: ranks are not bound, as this system does not say which there are");
    return undefined;
  }
  const { replica = 0, replicas = 1 } = part ?? {};
  const first = replica * ranksPerNode;
  const cpus = cpusOfRanks(allowed, replicas * ranksPerNode).slice(first, first + ranksPerNode);
  const named = cpus.map((own, i) => `rank ${node * ranksPerNode + i} to ${own.join(" ")}`);
  onBound(`CPUs: bound ${named.join(", ")}`);
  return cpus;
}
