/**
 * Options of a router whose workers are pods of a Kubernetes cluster.
 *
 * @module
 */
import type { Labels, PodRules } from "../../router/discovery/pod.ts";
import { OptionError, type OptionTable, type OptionValues } from "../options/option_parser.ts";

const PODS = "Workers from a Kubernetes cluster";

export const DISCOVERY_OPTIONS = {
  serviceDiscovery: {
    flags: ["--service-discovery"],
    kind: "flag",
    default: false,
    help: "add the pods of a cluster that are ready, and remove those that no longer are",
    group: PODS,
  },
  selector: {
    flags: ["--selector"],
    kind: "strings",
    value: "LABEL=VALUE...",
    help: "labels that a pod must all have to be a worker",
    group: PODS,
  },
  prefillSelector: {
    flags: ["--prefill-selector"],
    kind: "strings",
    value: "LABEL=VALUE...",
    help: "with --pd-disaggregation: labels of prefill servers, whose annotation sglang.ai/bootstrap-port is their bootstrap port",
    group: PODS,
  },
  decodeSelector: {
    flags: ["--decode-selector"],
    kind: "strings",
    value: "LABEL=VALUE...",
    help: "with --pd-disaggregation: labels of decode servers",
    group: PODS,
  },
  serviceDiscoveryPort: {
    flags: ["--service-discovery-port"],
    kind: "integer",
    min: 1,
    max: 65_535,
    default: 80,
    help: "port at which pods serve",
    group: PODS,
  },
  serviceDiscoveryNamespace: {
    flags: ["--service-discovery-namespace"],
    kind: "string",
    value: "NAME",
    defaultText: "all",
    help: "where pods are looked for",
    group: PODS,
  },
  serviceDiscoveryApi: {
    flags: ["--service-discovery-api"],
    kind: "string",
    value: "URL",
    defaultText: "that of the cluster in which the router runs",
    help: "address of the cluster's interface, such as http://127.0.0.1:8001 of kubectl proxy",
    group: PODS,
  },
} as const satisfies OptionTable;

export type DiscoveryOptions = OptionValues<typeof DISCOVERY_OPTIONS> & {
  readonly pdDisaggregation: boolean;
};

/** What needs `--service-discovery`, but for what has a default. */
const NEEDING = [
  ...(["selector", "prefillSelector", "decodeSelector"] as const),
  ...(["serviceDiscoveryNamespace", "serviceDiscoveryApi"] as const),
];

/** A label's key and its value. */
const LABEL = /^((?:[a-z0-9.-]{1,253}\/)?[\w.-]{1,63})=([\w.-]{0,63})$/;

/**
 * Which pods are workers; undefined where none are looked for.
 *
 * @throws {OptionError} where options do not go together, and for what is no label, name or address.
 */
export function podRulesOf(options: DiscoveryOptions): PodRules | undefined {
  const { serviceDiscovery, pdDisaggregation, selector, prefillSelector, decodeSelector } = options;
  if (!serviceDiscovery) {
    const given = NEEDING.find((name) => options[name] !== undefined);
    if (given === undefined) return undefined;
    throw wrong(DISCOVERY_OPTIONS[given].flags[0], "it needs --service-discovery");
  }
  requireNames(options);
  if (pdDisaggregation && selector !== undefined) {
    const instead = "--prefill-selector, --decode-selector";
    throw wrong("--selector", `with --pd-disaggregation servers have roles: ${instead}`);
  }
  const ofRoles = { "--prefill-selector": prefillSelector, "--decode-selector": decodeSelector };
  for (const [flag, given] of Object.entries(ofRoles)) {
    if (!pdDisaggregation && given !== undefined) throw wrong(flag, "it needs --pd-disaggregation");
  }
  const rules = [
    ...(selector ? [{ role: "plain" as const, labels: labelsOf("--selector", selector) }] : []),
    ...(prefillSelector
      ? [{ role: "prefill" as const, labels: labelsOf("--prefill-selector", prefillSelector) }]
      : []),
    ...(decodeSelector
      ? [{ role: "decode" as const, labels: labelsOf("--decode-selector", decodeSelector) }]
      : []),
  ];
  if (rules.length === 0) {
    const needed = pdDisaggregation ? "--prefill-selector or --decode-selector" : "--selector";
    throw wrong("--service-discovery", `it needs ${needed}, which says what pods are workers`);
  }
  return { rules, port: options.serviceDiscoveryPort };
}

function requireNames({
  serviceDiscoveryNamespace: name,
  serviceDiscoveryApi: api,
}: DiscoveryOptions) {
  if (name !== undefined && !/^[a-z0-9-]{1,63}$/.test(name)) {
    throw wrong(`--service-discovery-namespace ${name}`, "it is no name of a namespace");
  }
  const url = api !== undefined && URL.canParse(api) ? new URL(api) : undefined;
  if (api !== undefined && !["http:", "https:"].includes(url?.protocol ?? "")) {
    throw wrong(`--service-discovery-api ${api}`, "it must be an http or https address");
  }
}

function labelsOf(flag: string, words: readonly string[]): Labels {
  const labels: Record<string, string> = {};
  for (const word of words) {
    const [, key, value] = LABEL.exec(word) ?? [];
    if (key === undefined) throw wrong(`${flag} ${word}`, "it must be LABEL=VALUE");
    labels[key] = value!;
  }
  return labels;
}

function wrong(option: string, state: string): OptionError {
  return new OptionError(`Cannot use option ${option}: ${state}`);
}
