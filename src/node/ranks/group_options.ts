/**
 * Options of servers whose ranks are processes, on one machine or on several.
 *
 * @module
 */
import { CHECK_RANKS_OPTIONS } from "../mpi/rank_options.ts";
import type { OptionTable, OptionValues } from "../options/option_parser.ts";

const { nnodes, nodeRank, distInitAddr, distTimeout } = CHECK_RANKS_OPTIONS;
const { default: _nodes, ...askedNodes } = nnodes;
const { default: _node, ...askedNode } = nodeRank;
const { default: _timeout, ...askedTimeout } = distTimeout;

export const GROUP_OPTIONS = {
  nnodes: {
    ...askedNodes,
    defaultText: "none: one process has all ranks",
    help:
      "machines of the group, each running this command; given, also as 1, each rank is a process of " +
      "its own, joined by MPI (one machine without MPI has all ranks in one process)",
  },
  nodeRank: { ...askedNode, defaultText: "0" },
  distInitAddr,
  distTimeout: {
    ...askedTimeout,
    defaultText: "600",
    help: "how long machines and ranks wait for each other at the start; with one rank, for nothing",
  },
  restart: {
    flags: ["--restart"],
    kind: "flag",
    default: false,
    help:
      "start the ranks again when one is lost, up to 5 times in a row, with waits of 0 to 8 s; requests " +
      "get a 503 meanwhile. A server whose ranks are on its own thread has none to start again",
    group: nnodes.group,
  },
} as const satisfies OptionTable;

/** A line for each of the options that are given and change nothing, as no other rank or node is waited for, or started. */
export function idleGroupOptions(
  {
    tpSize,
    nnodes = 1,
    distInitAddr,
    distTimeout,
    restart,
  }: Partial<OptionValues<typeof GROUP_OPTIONS>> & { readonly tpSize: number },
  areApart: boolean,
): readonly string[] {
  const idle = (flag: string, why: string) => `Option ${flag} changes nothing: ${why}`;
  return [
    ...(distInitAddr !== undefined && nnodes === 1
      ? [idle("--dist-init-addr", "one machine meets no other")]
      : []),
    ...(distTimeout !== undefined && tpSize === 1 && nnodes === 1
      ? [idle("--dist-timeout", "one rank waits for no other")]
      : []),
    ...(restart && !areApart
      ? [idle("--restart", "no rank is a process or a thread of its own")]
      : []),
  ];
}
