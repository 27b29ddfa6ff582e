/**
 * Options of a group of ranks, on one machine or on several.
 *
 * @module
 */
import { OptionError, type OptionTable, type OptionValues } from "../options/option_parser.ts";

const RANKS = "Ranks and machines";

/** More than any group has that runs one model. */
const MOST_RANKS = 1024;

export const CHECK_RANKS_OPTIONS = {
  tpSize: {
    flags: ["--tp-size", "--tp", "--tensor-parallel-size"],
    kind: "integer",
    value: "N",
    min: 1,
    max: MOST_RANKS,
    default: 2,
    help: "ranks of all machines; each machine has as many as every other",
    group: RANKS,
  },
  nnodes: {
    flags: ["--nnodes"],
    kind: "integer",
    value: "N",
    min: 1,
    max: MOST_RANKS,
    default: 1,
    help: "machines of the group",
    group: RANKS,
  },
  nodeRank: {
    flags: ["--node-rank"],
    kind: "integer",
    value: "N",
    min: 0,
    max: MOST_RANKS - 1,
    default: 0,
    help: "number of this machine; 0 is where the others come to",
    group: RANKS,
  },
  distInitAddr: {
    flags: ["--dist-init-addr", "--nccl-init-addr"],
    kind: "string",
    value: "HOST:PORT",
    defaultText: "none: one machine needs none",
    help: "where machine 0 waits for the others: an address of its own, and a free port",
    group: RANKS,
  },
  distTimeout: {
    flags: ["--dist-timeout"],
    kind: "number",
    value: "SECONDS",
    min: 0.1,
    max: 86_400,
    default: 600,
    help: "how long machines and ranks wait for each other at the start",
    group: RANKS,
  },
  help: {
    flags: ["--help"],
    kind: "flag",
    default: false,
    help: "print this help",
    group: RANKS,
  },
} as const satisfies OptionTable;

type RankValues = Omit<OptionValues<typeof CHECK_RANKS_OPTIONS>, "help">;

/** Where ranks are, and where their machines meet. */
export interface GroupPlace {
  readonly nodes: number;
  readonly node: number;
  readonly ranksPerNode: number;
  readonly address: { readonly host: string; readonly port: number } | undefined;
  /** Milliseconds. */
  readonly timeout: number;
}

/** @throws {OptionError} where options do not go together. */
export function groupPlace(options: RankValues): GroupPlace {
  const { tpSize, nnodes, nodeRank, distInitAddr, distTimeout } = options;
  if (tpSize % nnodes !== 0) {
    const state = `${nnodes} machines cannot have as many ranks each`;
    throw new OptionError(`Cannot use option --tp-size ${tpSize}: ${state}`);
  }
  if (nodeRank >= nnodes) {
    const state = `the machines of --nnodes ${nnodes} are 0 to ${nnodes - 1}`;
    throw new OptionError(`Cannot use option --node-rank ${nodeRank}: ${state}`);
  }
  if (nnodes > 1 && distInitAddr === undefined) {
    const state = "--dist-init-addr has to say where the machines meet";
    throw new OptionError(`Cannot use option --nnodes ${nnodes}: ${state}`);
  }
  return {
    nodes: nnodes,
    node: nodeRank,
    ranksPerNode: tpSize / nnodes,
    address: distInitAddr === undefined ? undefined : addressOf(distInitAddr),
    timeout: 1000 * distTimeout,
  };
}

const MOST_PORT = 65_535;

/** "host:port", "1.2.3.4:port" or "[::1]:port". */
function addressOf(text: string): { readonly host: string; readonly port: number } {
  const [, bracketed, plain, digits] =
    /^(?:\[([\da-fA-F:.%\w]{2,64})\]|([^\s:[\]/]{1,253})):(\d{1,5})$/.exec(text) ?? [];
  const host = bracketed ?? plain;
  const port = Number(digits);
  if (host === undefined || port < 1 || port > MOST_PORT) {
    throw new OptionError(
      `Cannot use option --dist-init-addr ${text}: write host:port, as 10.0.0.1:5000`,
    );
  }
  return { host, port };
}
