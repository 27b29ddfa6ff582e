/**
 * Options of servers with several replicas of a model.
 *
 * @module
 */
import { LOAD_BALANCE_METHODS } from "../../parallel/replicas/load_balance.ts";
import { DISAGGREGATION_OPTIONS } from "../disaggregation/disaggregation_options.ts";
import { OptionError, type OptionTable, type OptionValues } from "../options/option_parser.ts";
import { GROUP_OPTIONS } from "../ranks/group_options.ts";

const { group } = GROUP_OPTIONS.nnodes;
/** More than any machine has adapters for. */
const MOST_REPLICAS = 64;

export const REPLICA_OPTIONS = {
  dpSize: {
    flags: ["--dp-size", "--dp", "--data-parallel-size"],
    kind: "integer",
    value: "N",
    min: 1,
    max: MOST_REPLICAS,
    default: 1,
    help:
      "replicas of the model that answer different requests, each with --tp-size ranks, weights, a cache " +
      "and batches of its own; all in this process, or with --nnodes each rank of each a process, and as " +
      "many replicas on every machine. Those that share an adapter share its memory out",
    group,
  },
  loadBalanceMethod: {
    flags: ["--load-balance-method"],
    kind: "string",
    choices: LOAD_BALANCE_METHODS,
    defaultText: "round_robin",
    help:
      "which replica a request goes to: one after the other, the one with the fewest requests, the one " +
      "with the fewest tokens in its cache and queue, or the one that was sent what begins like the prompt",
    group,
  },
} as const satisfies OptionTable;

export type ReplicaOptions = OptionValues<typeof REPLICA_OPTIONS>;

const [DP_SIZE] = REPLICA_OPTIONS.dpSize.flags;

type Others = OptionValues<
  Pick<typeof GROUP_OPTIONS, "nnodes" | "nodeRank" | "distInitAddr"> &
    Pick<typeof DISAGGREGATION_OPTIONS, "disaggregationMode">
>;

interface ReplicaPlace {
  /** Whether a launcher of another program has started this process, beside others. */
  readonly isOuter?: boolean;
  /** Whether they are attention groups of the ranks of one. */
  readonly ofGroups?: boolean;
}

/**
 * @throws {OptionError} naming what several replicas do not go with.
 */
export function requireUsableReplicas(
  options: Pick<ReplicaOptions, "dpSize"> & Others,
  { isOuter = false, ofGroups = false }: ReplicaPlace = {},
): void {
  const { dpSize, nnodes = 1, disaggregationMode } = options;
  if (dpSize === 1) return;
  const refuse = (what: string, problem: string): never => {
    throw new OptionError(
      `Cannot use option ${DP_SIZE} ${dpSize} together with ${what}: ${problem}`,
    );
  };
  const launcher = "a launcher of ranks such as mpiexec";
  const machines = `${GROUP_OPTIONS.nnodes.flags[0]} ${nnodes}`;
  if (dpSize % nnodes !== 0 && !ofGroups) {
    refuse(
      machines,
      `${nnodes} machines cannot have as many replicas each, with all of their ranks`,
    );
  }
  if (isOuter && !ofGroups) refuse(launcher, "the server starts the ranks of all replicas itself");
  if (disaggregationMode !== "null" && nnodes > 1 && !ofGroups) {
    const [flag] = DISAGGREGATION_OPTIONS.disaggregationMode.flags;
    const problem = "replicas that share requests with other servers are all on one machine";
    refuse(`${flag} ${disaggregationMode} and ${machines}`, problem);
  }
}

/** A line for an option that is given and changes nothing, as no replica is chosen. */
export function idleReplicaOptions({
  dpSize,
  loadBalanceMethod,
}: ReplicaOptions): readonly string[] {
  if (dpSize > 1 || loadBalanceMethod === undefined) return [];
  const [flag] = REPLICA_OPTIONS.loadBalanceMethod.flags;
  return [`Option ${flag} changes nothing: there is one replica`];
}
