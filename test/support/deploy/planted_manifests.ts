/**
 * Faults of manifests: one value of one of them is another, missing, or added.
 *
 * @module
 */
import { expect } from "vitest";
import type { Manifest, OVERLAYS } from "./manifests.ts";

export interface PlantedManifest {
  readonly overlay: (typeof OVERLAYS)[number];
  /** Kind and name. */
  readonly of: string;
  /** Keys on the way to the value, with spaces between; one with dashes is an option of a command. */
  readonly at: string;
  /** Undefined removes it. */
  readonly value: unknown;
  /** What is said of it. */
  readonly problem?: string;
}

/** The manifests with the fault in them. */
export function planted(
  manifests: readonly Manifest[],
  { of, at, value }: PlantedManifest,
): readonly Manifest[] {
  const copies = structuredClone(manifests) as Manifest[];
  const found = copies.find(({ kind, metadata }) => `${kind} ${metadata.name}` === of);
  expect(found, of).toBeDefined();
  const keys = at.split(" ");
  const last = keys.pop()!;
  let place = found as unknown as Record<string, unknown>;
  for (const key of keys) place = place[key] as typeof place;
  if (last === "+") (place as unknown as unknown[]).push(value);
  else if (last.startsWith("--")) setOption(place as unknown as string[], last, value as string);
  else if (value === undefined && Array.isArray(place)) place.splice(Number(last), 1);
  else if (value === undefined) delete place[last];
  else place[last] = value;
  return copies;
}

function setOption(args: string[], flag: string, value: string): void {
  const at = args.findIndex((arg) => arg.startsWith(`${flag}=`));
  expect(at, flag).toBeGreaterThan(0);
  args[at] = `${flag}=${value}`;
}

const POD = "spec template spec";
const FIRST = `${POD} containers 0`;
const LEADER = "spec leaderWorkerTemplate leaderTemplate spec containers 0";
const WORKER = "spec leaderWorkerTemplate workerTemplate spec containers 0";
const roleWorker = (i: number) => `spec roles ${i} ${WORKER}`;

const twoSets = (of: string, at: string, value: unknown, problem?: string) =>
  fault("two-sets", of, at, value, problem);
const ofGroup = (at: string, value: unknown, problem?: string) =>
  fault("two-nodes", "LeaderWorkerSet wisp", at, value, problem);
const ofReference = (at: string, value: unknown, problem?: string) =>
  fault("reference", "DisaggregatedSet wisp", at, value, problem);

function fault(
  overlay: PlantedManifest["overlay"],
  of: string,
  ...[at, value, problem]: [string, unknown, string | undefined]
): PlantedManifest {
  return { overlay, of, at, value, ...(problem !== undefined && { problem }) };
}

const PREFILL = "StatefulSet wisp-prefill";
const DECODE = "StatefulSet wisp-decode";
const ROUTER = "Deployment wisp-router";

/** What the kinds of Kubernetes itself refuse. */
export const OF_CORE_KINDS: readonly PlantedManifest[] = [
  twoSets(PREFILL, "spec replica", 2),
  twoSets(PREFILL, "spec replicas", "2"),
  twoSets(DECODE, "spec selector", undefined),
  twoSets(DECODE, "spec podManagementPolicies", "Parallel"),
  twoSets(DECODE, `${FIRST} ports 0 containerPort`, "30000"),
  twoSets(DECODE, `${FIRST} ports 0 port`, 30_000),
  twoSets(DECODE, `${FIRST} readyProbe`, {}),
  twoSets(DECODE, `${FIRST} args`, "launch_server"),
  twoSets(DECODE, `${FIRST} env 0 value`, 16),
  twoSets(DECODE, `${POD} containers`, undefined),
  twoSets(DECODE, "apiVersion", "apps/v2"),
  twoSets("Role wisp-router", "rules 0 verbs", "watch"),
  twoSets("Role wisp-router", "rules 0 verb", ["watch"]),
  twoSets("RoleBinding wisp-router", "roleRef kinds", "Role"),
  twoSets("Service wisp-router", "spec ports 0 targetport", 1),
  twoSets("Service wisp-router", "spec ports 0 nodePort", "30800"),
  twoSets("NetworkPolicy wisp-decode", "spec podSelectors", {}),
  twoSets("ServiceAccount wisp-router", "spec", {}),
  ofGroup(`${LEADER} imagePull`, "Always"),
  ofReference(`${roleWorker(1)} resources limit`, {}),
];

/** What the definitions of LeaderWorkerSet refuse. */
export const OF_CUSTOM_KINDS: readonly PlantedManifest[] = [
  ofGroup("spec leaderWorkerTemplate size", "2"),
  ofGroup("spec leaderWorkerTemplate sizes", 2),
  ofGroup("spec leaderWorkerTemplate workerTemplate", undefined),
  ofGroup("spec leaderWorkerTemplate restartPolicy", "Always"),
  ofGroup("spec startupPolicy", "Ready"),
  ofGroup("spec replicas", -1),
  ofGroup(`${WORKER} arg`, []),
  ofGroup(`${LEADER} ports 0 containerPort`, "http"),
  ofReference("spec roles 1", undefined),
  ofReference("spec roles 0 name", "Prefill_"),
  ofReference("spec roles 0 replicas", 2),
  ofReference("spec replicas", 2),
  ofReference(`${roleWorker(0)} ports 0 containerPort`, "http"),
];

/** What does not go together. */
export const OF_LINKS: readonly PlantedManifest[] = [
  twoSets(PREFILL, `${FIRST} args --port`, "30009", "listens at 30009, which is no port of"),
  twoSets(
    PREFILL,
    `${FIRST} args --disaggregation-bootstrap-port`,
    "8999",
    "its annotation names bootstrap port 8998",
  ),
  twoSets(PREFILL, `${FIRST} ports 0 containerPort`, 0, "ports 0,8998 are none"),
  twoSets(PREFILL, `${FIRST} ports +`, { containerPort: 80 }, "a port at which nothing listens"),
  twoSets(DECODE, `${FIRST} readinessProbe tcpSocket port`, "htp", "readinessProbe asks port htp"),
  twoSets(DECODE, `${FIRST} args +`, "--chunk-size=1", "Cannot use option --chunk-size"),
  twoSets(DECODE, `${FIRST} args --page-size`, "many", "Cannot use option --page-size"),
  twoSets(DECODE, `${FIRST} args --page-size`, "32", "servers of a pair differ"),
  twoSets(
    DECODE,
    `${FIRST} env 0 name`,
    "SVC_HACK_DEEPEP_NEW_MODE",
    "SVC_HACK_DEEPEP_NEW_MODE has no effect",
  ),
  twoSets(
    DECODE,
    `${POD} volumes 0`,
    undefined,
    "reads /etc/wisp/server.json, which nothing mounts",
  ),
  twoSets(DECODE, `${POD} volumes 1`, undefined, "volume models is missing"),
  twoSets(DECODE, `${POD} terminationGracePeriodSeconds`, undefined, "is killed after 30 s"),
  twoSets(DECODE, "spec selector matchLabels app", "x", "selector does not find its own pods"),
  twoSets(DECODE, "spec serviceName", "wisp", "service wisp is missing"),
  twoSets(ROUTER, `${FIRST} args --service-discovery-port`, "30001", "router asks it at 30001"),
  twoSets(ROUTER, `${FIRST} args --port`, "8001", "listens at 8001, which is no port of the pod"),
  twoSets(ROUTER, `${FIRST} args 10`, "app.kubernetes.io/name=x", "no pod is a prefill worker"),
  twoSets(ROUTER, `${POD} serviceAccountName`, "other", "account other is missing"),
  twoSets("Role wisp-router", "rules 0 verbs", ["get", "list"], "may not watch pods"),
  twoSets("Service wisp-router", "spec ports 0 nodePort", 20_800, "20800 is no port of nodes"),
  twoSets("Service wisp-router", "spec ports 0 targetPort", 8080, "its pods have no port 8080"),
  twoSets("Service wisp-router", "spec selector app", "x", "it finds no pod"),
  twoSets("NetworkPolicy wisp-prefill", "spec ingress 1 ports 0 port", 8997, "no port 8997"),
  fault(
    "one-gpu",
    "Deployment wisp",
    `${FIRST} readinessProbe httpGet path`,
    "/healthz",
    "/healthz",
  ),
  ofGroup(
    `${LEADER} args +`,
    "--sleep-idle-seconds=5",
    "Cannot use option --sleep-idle-seconds with --nnodes",
  ),
  ofGroup(`${WORKER} resources limits nvidia.com/gpu`, "4", "2 nodes have 4 devices each"),
  ofGroup(`${LEADER} args --dist-init-addr`, "$(LWS_LEADER_ADDRESS):20103", "it listens at 20103"),
  ofGroup(`${WORKER} args --port`, "30000", "it listens at 30000, which is no port of the pod"),
  ofReference(`${roleWorker(0)} args --page-size`, "32", "servers of a pair differ"),
  ofReference(`${roleWorker(1)} args --port`, "30000", "it listens at 30000, which is no port"),
  fault(
    "reference",
    "NetworkPolicy wisp-prefill-group",
    "spec podSelector matchLabels app.kubernetes.io/part-of",
    "x",
    "it finds no pod",
  ),
  ofReference(
    "spec roles 0 spec leaderWorkerTemplate workerTemplate metadata labels app.kubernetes.io/component",
    "decode",
    "it is no decode server",
  ),
];
