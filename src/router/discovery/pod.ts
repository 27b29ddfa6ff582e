/**
 * What the router needs of a pod of a Kubernetes cluster: whether it is a worker, which, and where.
 *
 * @module
 */

import type { WorkerRole } from "../worker/worker.ts";
import { workerUrl } from "../worker/workers.ts";

/** Labels that a pod must all have, each with its value. */
export type Labels = Readonly<Record<string, string>>;

/** Which pods are workers of a role. */
export interface PodRule {
  readonly role: WorkerRole;
  readonly labels: Labels;
}

export interface PodRules {
  /** The first that a pod matches counts. */
  readonly rules: readonly PodRule[];
  /** At which pods serve. */
  readonly port: number;
}

/** A pod that is ready to serve. */
export interface PodWorker {
  /** Of this pod for ever: a later one of the same name has another. */
  readonly uid: string;
  /** `namespace/name`, for the log. */
  readonly name: string;
  readonly url: string;
  readonly role: WorkerRole;
  readonly bootstrapPort: number | null;
}

/** What the cluster sent is not what it says it sends. */
export class MalformedError extends Error {}

/** By which a prefill pod says where it meets decode servers. */
const BOOTSTRAP_PORT = "sglang.ai/bootstrap-port";

/** UTF-16 units of an id or a version. */
const MAX_ID = 256;

type Fields = Readonly<Record<string, unknown>>;

/** An object's fields; of everything else none. */
export function fieldsOf(value: unknown): Fields {
  return typeof value === "object" && value !== null ? (value as Fields) : {};
}

/** @throws {MalformedError} when it is no text of the length of an id. */
export function idIn(value: unknown, what: string): string {
  if (typeof value === "string" && value !== "" && value.length <= MAX_ID) return value;
  throw new MalformedError(`${what} is missing`);
}

/** @throws {MalformedError} when an object of the cluster has none. */
export function versionOf(object: unknown): string {
  return idIn(fieldsOf(fieldsOf(object).metadata).resourceVersion, "a resourceVersion");
}

/**
 * @returns `worker` is undefined while the pod is none: others' labels, not ready, or about to end.
 * @throws {MalformedError} when it has no id.
 */
export function readPod(
  pod: unknown,
  rules: PodRules,
): { readonly uid: string; readonly worker: PodWorker | undefined } {
  const { metadata, status } = fieldsOf(pod);
  const {
    uid: given,
    name,
    namespace,
    labels,
    annotations,
    deletionTimestamp,
  } = fieldsOf(metadata);
  const uid = idIn(given, "a pod's uid");
  const rule = rules.rules.find((one) => matches(fieldsOf(labels), one.labels));
  const host = hostOf(fieldsOf(status).podIP);
  const isLeaving = deletionTimestamp !== undefined && deletionTimestamp !== null;
  if (rule === undefined || host === undefined || isLeaving || !isReady(fieldsOf(status))) {
    return { uid, worker: undefined };
  }
  const { role } = rule;
  const port = role === "prefill" ? portIn(fieldsOf(annotations)[BOOTSTRAP_PORT]) : null;
  const shown = `${shortened(namespace)}/${shortened(name)}`;
  // As all other workers are written.
  const url = workerUrl(`http://${host}:${rules.port}`);
  return { uid, worker: { uid, name: shown, url, role, bootstrapPort: port } };
}

function matches(labels: Fields, wanted: Labels): boolean {
  return Object.entries(wanted).every(([key, value]) => labels[key] === value);
}

function isReady({ phase, conditions }: Fields): boolean {
  if (phase !== "Running" || !Array.isArray(conditions)) return false;
  return conditions.some((condition) => {
    const { type, status } = fieldsOf(condition);
    return type === "Ready" && status === "True";
  });
}

/** Whether it is written as addresses are, without zeros in front, which count as octal. */
function isIPv4(ip: string): boolean {
  return URL.canParse(`http://${ip}`) && new URL(`http://${ip}`).host === ip;
}

/** As it stands in an address; undefined for what is no address of a machine. */
function hostOf(ip: unknown): string | undefined {
  if (typeof ip !== "string" || ip.length > MAX_ID) return undefined;
  if (/^\d{1,3}(?:\.\d{1,3}){3}$/.test(ip)) return isIPv4(ip) ? ip : undefined;
  return /^[\da-fA-F:.]+$/.test(ip) && URL.canParse(`http://[${ip}]`) ? `[${ip}]` : undefined;
}

function portIn(text: unknown): number | null {
  const port = typeof text === "string" && /^\d{1,5}$/.test(text) ? Number(text) : 0;
  return port > 0 && port < 65_536 ? port : null;
}

function shortened(name: unknown): string {
  return typeof name === "string" ? name.slice(0, MAX_ID) : "?";
}
