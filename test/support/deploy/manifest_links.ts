/**
 * What manifests say of each other, and of the program: ports, labels, accounts, volumes and options
 * that do not go together.
 *
 * @module
 */
import { requireUsableDisaggregation } from "../../../src/node/disaggregation/disaggregation_options.ts";
import { environmentWarnings } from "../../../src/node/options/environment.ts";
import { parseOptions } from "../../../src/node/options/option_parser.ts";
import { LAUNCH_OPTIONS, type LaunchOptions } from "../../../src/node/options/options.ts";
import { requireConsistent } from "../../../src/node/options/server_options.ts";
import { rankPlace, requireOfProcesses } from "../../../src/node/ranks/rank_place.ts";
import { podRulesOf } from "../../../src/node/route/discovery_options.ts";
import { requireUsable } from "../../../src/node/route/map_router_options.ts";
import {
  ROUTER_OPTIONS,
  type RouterLaunchOptions,
} from "../../../src/node/route/router_options.ts";
import { type Manifest, type PodTemplate, podTemplates } from "./manifests.ts";

type Labels = Readonly<Record<string, string>>;
type Container = Manifest["spec"];

/** What the key files add. */
const SERVER_KEYS = { apiKey: "k", disaggregationKey: "k" };

/** Variables that a group of LeaderWorkerSet gives its containers. */
const GROUP_VARIABLES: Labels = {
  LWS_WORKER_INDEX: "0",
  LWS_LEADER_ADDRESS: "wisp-0.wisp.wisp",
};

export function linkProblems(manifests: readonly Manifest[]): readonly string[] {
  const templates = podTemplates(manifests);
  return [
    ...templates.flatMap(podProblems),
    ...templates.flatMap((template) => routerProblems(template, templates, manifests)),
    ...pairProblems(templates),
    ...manifests.flatMap((manifest) => ownProblems(manifest, manifests, templates)),
  ];
}

const hasLabels = (labels: Labels, wanted: Labels) =>
  Object.entries(wanted).every(([key, value]) => labels[key] === value);

const withLabels = (templates: readonly PodTemplate[], wanted: Labels) =>
  templates.filter(({ template }) => hasLabels(template.metadata?.labels ?? {}, wanted));

const portsOf = ({ template }: PodTemplate): readonly Container[] =>
  template.spec.containers.flatMap(({ ports = [] }: Container) => ports);

const isPort = (port: unknown, from = 1, to = 65_535) =>
  Number.isInteger(port) && Number(port) >= from && Number(port) <= to;

/** Whether one of the ports has that name or number. */
const hasPort = (ports: readonly Container[], port: unknown) =>
  ports.some(({ name, containerPort }) => port === name || port === containerPort);

function podProblems(pod: PodTemplate): readonly string[] {
  const { name, template, selector } = pod;
  const { metadata, spec } = template;
  const ports = portsOf(pod);
  const problems: string[] = [];
  const expect = (isSo: boolean, problem: string) => {
    if (!isSo) problems.push(`${name}: ${problem}`);
  };
  expect(hasLabels(metadata.labels, selector), "the selector does not find its own pods");
  const numbers = ports.map(({ containerPort }) => containerPort);
  expect(
    numbers.every((port) => isPort(port)),
    `ports ${numbers} are none`,
  );
  expect(new Set(numbers).size === numbers.length, `ports ${numbers} are there twice`);
  const volumes: readonly Container[] = spec.volumes ?? [];
  for (const container of spec.containers as readonly Container[]) {
    for (const mount of container.volumeMounts ?? []) {
      const isThere = volumes.some((volume) => volume.name === mount.name);
      expect(isThere, `volume ${mount.name} is missing`);
    }
    for (const kind of ["readinessProbe", "livenessProbe", "startupProbe"]) {
      const probe = container[kind]?.tcpSocket ?? container[kind]?.httpGet;
      if (probe === undefined) continue;
      expect(hasPort(container.ports ?? [], probe.port), `${kind} asks port ${probe.port}`);
      const paths = ["/health", "/readiness", "/liveness", undefined];
      expect(paths.includes(probe.path), `${kind} asks ${probe.path}`);
    }
    for (const problem of commandProblems(pod, container)) problems.push(`${name}: ${problem}`);
  }
  return problems;
}

/**
 * The options of a container, with its variables in their places.
 *
 * @param group Variables of its group. Default: of one that is first.
 */
export function optionsOf(
  container: Container,
  group: Labels = GROUP_VARIABLES,
): readonly string[] {
  const own = (container.env ?? []) as readonly {
    readonly name: string;
    readonly value?: string;
  }[];
  const variables: Labels = {
    ...group,
    ...Object.fromEntries(own.map(({ name, value }) => [name, value ?? "wisp"])),
  };
  return (container.args as readonly string[]).map((arg) =>
    String(arg).replaceAll(/\$\((\w+)\)/g, (whole, name: string) => variables[name] ?? whole),
  );
}

/** @throws {OptionError} */
export function serverOptions(args: readonly string[]): LaunchOptions {
  const { values, positionals } = parseOptions(LAUNCH_OPTIONS, args, SERVER_KEYS);
  if (positionals.length > 0) throw new Error(`${positionals} are no options`);
  requireConsistent(values);
  requireUsableDisaggregation(values);
  if (rankPlace(values) !== undefined) requireOfProcesses(values);
  return values;
}

/** @throws {OptionError} */
export function routerOptions(args: readonly string[]): RouterLaunchOptions {
  const { values, positionals } = parseOptions(ROUTER_OPTIONS, args, { apiKey: "k" });
  if (positionals.length > 0) throw new Error(`${positionals} are no options`);
  requireUsable(values);
  return values;
}

function commandProblems(pod: PodTemplate, container: Container): readonly string[] {
  const [command, ...args] = optionsOf(container);
  try {
    if (command === "launch_router") return routerPorts(pod, routerOptions(args));
    if (command !== "launch_server") return [`it runs ${command}`];
    const options = serverOptions(args);
    return [
      ...serverProblems(pod, container, options),
      ...environmentWarnings(
        plainVariables(container),
        (options.nnodes ?? 1) > 1 ? "ours" : "none",
      ),
    ];
  } catch (error) {
    return [(error as Error).message];
  }
}

const plainVariables = ({ env = [] }: Container): Record<string, string> =>
  Object.fromEntries(
    (env as readonly Container[]).map(({ name, value }) => [name, value ?? ""] as const),
  );

function routerPorts(pod: PodTemplate, options: RouterLaunchOptions): readonly string[] {
  const listens = [options.port, options.prometheusPort];
  const missing = listens.filter((port) => !hasPort(portsOf(pod), port));
  return [
    ...missing.map((port) => `it listens at ${port}, which is no port of the pod`),
    ...keyProblems(pod, options.config),
    ...drainProblems(pod, options.drainTimeout),
  ];
}

function serverProblems(
  pod: PodTemplate,
  container: Container,
  options: LaunchOptions,
): readonly string[] {
  const { metadata } = pod.template;
  const problems = [
    ...keyProblems(pod, options.config),
    ...drainProblems(pod, options.drainTimeout),
  ];
  const ports = portsOf(pod);
  const nodes = options.nnodes ?? 1;
  const isLeader = pod.name.endsWith("-leader");
  // Other nodes have ranks of a prefill server, and no rooms.
  const isPrefill = options.disaggregationMode === "prefill" && (nodes === 1 || isLeader);
  const own = [options.port, ...(isPrefill ? [options.disaggregationBootstrapPort] : [])];
  if (nodes > 1 && isLeader) own.push(Number(/:(\d+)$/.exec(options.distInitAddr!)?.[1]));
  for (const port of own) {
    if (!hasPort(ports, port)) problems.push(`it listens at ${port}, which is no port of the pod`);
  }
  if (ports.length !== own.length) problems.push("it has a port at which nothing listens");
  const gpus = Number(container.resources?.limits?.["nvidia.com/gpu"]);
  if (gpus !== options.tpSize / nodes) {
    problems.push(`${options.tpSize} ranks on ${nodes} nodes have ${gpus} devices each`);
  }
  const annotated = metadata.annotations?.["sglang.ai/bootstrap-port"];
  const bootstrap = isPrefill ? String(options.disaggregationBootstrapPort) : undefined;
  if (annotated !== bootstrap) problems.push(`its annotation names bootstrap port ${annotated}`);
  return problems;
}

/** The file of options is one that the pod mounts. */
function keyProblems({ template }: PodTemplate, config: string | undefined): readonly string[] {
  const { volumes = [], containers } = template.spec;
  const files = (containers as readonly Container[]).flatMap(({ volumeMounts = [] }) =>
    (volumeMounts as readonly Container[]).flatMap(({ name, mountPath }) => {
      const volume = (volumes as readonly Container[]).find((one) => one.name === name);
      const items: readonly Container[] = volume?.secret?.items ?? [];
      return items.map(({ path }) => `${mountPath}/${path}`);
    }),
  );
  return files.includes(config ?? "") ? [] : [`it reads ${config}, which nothing mounts`];
}

function drainProblems({ template }: PodTemplate, drainTimeout: number): readonly string[] {
  const grace = template.spec.terminationGracePeriodSeconds ?? 30;
  return grace > drainTimeout ? [] : [`it is killed after ${grace} s while it drains`];
}

/** Pods that a router looks for are there, do what it takes them for, and serve where it asks. */
function routerProblems(
  { name, template }: PodTemplate,
  templates: readonly PodTemplate[],
  manifests: readonly Manifest[],
): readonly string[] {
  const [container] = template.spec.containers as readonly Container[];
  const [command, ...args] = optionsOf(container!);
  if (command !== "launch_router") return [];
  try {
    const rules = podRulesOf(routerOptions(args));
    const account = template.spec.serviceAccountName;
    const bound = manifests.find(
      ({ kind, subjects = [] }) =>
        kind === "RoleBinding" && subjects.some((one: Container) => one.name === account),
    );
    const role = manifests.find(
      ({ kind, metadata }) => kind === "Role" && metadata.name === bound?.roleRef.name,
    );
    const may = (role?.rules ?? []).some(
      ({ resources, verbs }: Container) =>
        resources.includes("pods") && ["list", "watch"].every((verb) => verbs.includes(verb)),
    );
    return [
      ...(may ? [] : [`${name}: account ${account} may not watch pods`]),
      ...(rules?.rules ?? []).flatMap((rule) => {
        const found = withLabels(templates, rule.labels);
        if (found.length === 0) return [`${name}: no pod is a ${rule.role} worker`];
        return found.flatMap((pod) => workerProblems(pod, { ...rule, port: rules!.port }));
      }),
    ];
  } catch {
    // Told of where its command is looked at.
    return [];
  }
}

function workerProblems(
  { name, template }: PodTemplate,
  wanted: { readonly role: string; readonly port: number },
): readonly string[] {
  const { disaggregationMode, port } = serverOptions(
    optionsOf(template.spec.containers[0]).slice(1),
  );
  return [
    ...(disaggregationMode === wanted.role ? [] : [`${name}: it is no ${wanted.role} server`]),
    ...(port === wanted.port ? [] : [`${name}: the router asks it at ${wanted.port}`]),
  ];
}

/** What a prefill and a decode server must have alike. */
function pairProblems(templates: readonly PodTemplate[]): readonly string[] {
  const servers = templates.flatMap(({ template }) => {
    const [command, ...args] = optionsOf(template.spec.containers[0]);
    try {
      return command === "launch_server" ? [serverOptions(args)] : [];
    } catch {
      return [];
    }
  });
  const roles = servers.filter(({ disaggregationMode }) => disaggregationMode !== "null");
  const alike = roles.map(({ pageSize, kvCacheDtype }) => [pageSize, kvCacheDtype]);
  return new Set(alike.map(String)).size > 1
    ? [`servers of a pair differ: ${alike.join("; ")}`]
    : [];
}

function ownProblems(
  { kind, metadata, ...manifest }: Manifest,
  manifests: readonly Manifest[],
  templates: readonly PodTemplate[],
): readonly string[] {
  const { spec } = manifest;
  const at = (problem: string) => `${kind} ${metadata.name}: ${problem}`;
  const isThere = (wanted: string, name: string) =>
    manifests.some((one) => one.kind === wanted && one.metadata.name === name);
  if (kind === "Service") {
    const pods = withLabels(templates, spec.selector);
    return (spec.ports as readonly Container[]).flatMap(({ port, targetPort, nodePort }) => [
      ...(pods.length > 0 ? [] : [at("it finds no pod")]),
      ...(pods.every((pod) => hasPort(portsOf(pod), targetPort))
        ? []
        : [at(`its pods have no port ${targetPort}`)]),
      ...(isPort(port) ? [] : [at(`${port} is no port`)]),
      ...(nodePort === undefined || isPort(nodePort, 30_000, 32_767)
        ? []
        : [at(`${nodePort} is no port of nodes`)]),
    ]);
  }
  if (kind === "StatefulSet" && !isThere("Service", spec.serviceName)) {
    return [at(`service ${spec.serviceName} is missing`)];
  }
  if (kind === "Deployment" && spec.template.spec.serviceAccountName !== undefined) {
    const account = spec.template.spec.serviceAccountName;
    return isThere("ServiceAccount", account) ? [] : [at(`account ${account} is missing`)];
  }
  if (kind === "NetworkPolicy") {
    const pods = withLabels(templates, spec.podSelector.matchLabels);
    const rules = spec.ingress as readonly Container[];
    // A rule without ports opens all of them.
    const ports = rules.flatMap((rule) => (rule.ports ?? []) as readonly Container[]);
    const closed = ports.filter(({ port }) => !pods.some((pod) => hasPort(portsOf(pod), port)));
    return [
      ...(pods.length > 0 ? [] : [at("it finds no pod")]),
      ...closed.map(({ port }) => at(`its pods have no port ${port}`)),
    ];
  }
  return [];
}
