/**
 * Options of a router whose workers share each request: prefill servers compute prompts, decode servers
 * answer.
 *
 * @module
 */
import { POLICIES } from "../../router/policy/policy.ts";
import type { WorkerPlace, WorkerRole } from "../../router/worker/worker.ts";
import { OptionError, type OptionTable, type OptionValues } from "../options/option_parser.ts";

const PAIRS = "Prefill and decode apart";

export const PAIR_OPTIONS = {
  pdDisaggregation: {
    flags: ["--pd-disaggregation"],
    kind: "flag",
    default: false,
    help: "send each request to a prefill and a decode server, which share it",
    group: PAIRS,
  },
  prefill: {
    flags: ["--prefill"],
    kind: "strings",
    value: "URL [PORT]",
    repeats: true,
    defaultText: "none: /add_worker adds them",
    help: "a prefill server, and its bootstrap port where that is not the one of decode servers; may be given again",
    group: PAIRS,
  },
  decode: {
    flags: ["--decode"],
    kind: "strings",
    value: "URL",
    repeats: true,
    defaultText: "none: /add_worker adds them",
    help: "a decode server; may be given again",
    group: PAIRS,
  },
  prefillPolicy: {
    flags: ["--prefill-policy"],
    kind: "string",
    choices: POLICIES,
    defaultText: "that of --policy",
    help: "how a prefill server is chosen",
    group: PAIRS,
  },
  decodePolicy: {
    flags: ["--decode-policy"],
    kind: "string",
    choices: POLICIES,
    defaultText: "that of --policy",
    help: "how a decode server is chosen",
    group: PAIRS,
  },
  decodeNodes: {
    flags: ["--decode-nodes"],
    kind: "flag",
    default: false,
    help: "let pages of browsers answer requests whose clients allow it; each joins by a token of /decode_node_token",
    group: PAIRS,
  },
  disaggregationKey: {
    flags: ["--disaggregation-key"],
    kind: "string",
    value: "KEY",
    help: "with --decode-nodes: the key of the prefill servers, by which the router lets nodes fetch pages there",
    group: PAIRS,
  },
} as const satisfies OptionTable;

/** A worker as the command line names it. */
export interface GivenWorker extends WorkerPlace {
  readonly url: string;
}

/**
 * The workers that have roles, in their order.
 *
 * @param found Roles of workers that a cluster has.
 * @throws {OptionError} where they do not go with the mode, and for what is no port.
 */
export function givenPairs(
  options: OptionValues<typeof PAIR_OPTIONS>,
  found: ReadonlySet<WorkerRole>,
): readonly GivenWorker[] {
  const { pdDisaggregation, prefill = [], decode = [], decodeNodes, disaggregationKey } = options;
  if (decodeNodes !== (disaggregationKey !== undefined)) {
    const [given, other] = decodeNodes
      ? ["--decode-nodes", "--disaggregation-key"]
      : ["--disaggregation-key", "--decode-nodes"];
    throw new OptionError(`Cannot use option ${given}: it needs ${other}`);
  }
  if (!pdDisaggregation) {
    const names = [
      "prefill",
      "decode",
      "prefillPolicy",
      "decodePolicy",
      "disaggregationKey",
    ] as const;
    const given = names.find((name) => options[name] !== undefined);
    if (given === undefined) return [];
    const flag = PAIR_OPTIONS[given].flags[0];
    throw new OptionError(`Cannot use option ${flag}: it needs --pd-disaggregation`);
  }
  for (const [role, urls] of [
    ["prefill", prefill],
    ["decode", decode],
  ] as const) {
    if (urls.length === 0 && !found.has(role)) {
      throw missing(`PD mode requires at least one ${role} worker URL`);
    }
  }
  const decodes = decode.map((url) => ({ url, role: "decode" as const }));
  return [...prefillsOf(prefill), ...decodes];
}

function missing(state: string): OptionError {
  return new OptionError(`Cannot use option --pd-disaggregation: ${state}`);
}

/** Addresses, each with a port behind it or none. */
function prefillsOf(words: readonly string[]): readonly GivenWorker[] {
  const workers: { url: string; role: "prefill"; bootstrapPort: number | null }[] = [];
  let mayHavePort = false;
  for (const word of words) {
    if (word.includes(":") || workers.length === 0) {
      workers.push({ url: word, role: "prefill", bootstrapPort: null });
      mayHavePort = true;
      continue;
    }
    const port = Number(word);
    const isPort = /^\d+$/.test(word) && port > 0 && port < 65_536;
    if (!mayHavePort || !(isPort || word === "none")) {
      const state = `Invalid bootstrap port: ${word}. Must be a number or 'none'`;
      throw new OptionError(`Cannot use option --prefill: ${state}`);
    }
    if (isPort) workers.at(-1)!.bootstrapPort = port;
    mayHavePort = false;
  }
  return workers;
}
