/**
 * Options of the server's interface whose capability does not exist yet. The parser refuses each
 * with a message that names it, unless it is given a value that asks for what the engine does
 * anyway.
 *
 * @module
 */

import type { OptionRow } from "./option_parser.ts";

type Reserved = Pick<OptionRow, "flags" | "kind" | "help" | "neutral">;

/** Rows that the parser refuses, but for neutral values. */
export function reserved<const T extends Readonly<Record<string, Reserved>>>(rows: T) {
  const table: Record<string, OptionRow> = {};
  for (const [key, row] of Object.entries<Reserved>(rows)) {
    const values = row.neutral?.join(" or ");
    const help = values ? `${row.help}; only ${values} so far` : row.help;
    const value = row.kind === "integer" || row.kind === "integers" ? "N" : "X";
    table[key] = { neutral: [], value, ...row, help, group: "Not supported yet" };
  }
  return table as { readonly [K in keyof T]: T[K] & OptionRow };
}

/**
 * Of a command that runs no ranks: those of a server are in `group_options.ts` and
 * `attention_group_options.ts` of `src/node/ranks` and `replica_options.ts` of `src/node/replicas`.
 */
export const RESERVED_GROUP_OPTIONS = reserved({
  dpSize: {
    flags: ["--dp-size", "--dp", "--data-parallel-size"],
    kind: "integer",
    neutral: [1],
    help: "replicas that answer different requests",
  },
  enableDpAttention: {
    flags: ["--enable-dp-attention"],
    kind: "flag",
    help: "data-parallel attention",
  },
  enableDpLmHead: {
    flags: ["--enable-dp-lm-head"],
    kind: "flag",
    help: "data-parallel output head",
  },
  distInitAddr: {
    flags: ["--dist-init-addr"],
    kind: "string",
    help: "where the nodes of a group meet",
  },
  nnodes: { flags: ["--nnodes"], kind: "integer", neutral: [1], help: "machines of a group" },
  nodeRank: {
    flags: ["--node-rank"],
    kind: "integer",
    neutral: [0],
    help: "number of this machine in its group",
  },
});
