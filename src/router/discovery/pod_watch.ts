/**
 * Follows the pods of a Kubernetes cluster by its watch interface: a list of them, then each change
 * behind it. What the cluster no longer has (410 Gone) or sends wrong begins with a new list; what
 * breaks off goes on from the last change.
 *
 * Source: Kubernetes, "API concepts": efficient detection of changes, watch bookmarks, chunked lists.
 *
 * @module
 */
import { sleep } from "../../http/retries.ts";
import { readText, type UpstreamAnswer, within } from "../worker/upstream.ts";
import { eventLines } from "./event_lines.ts";
import {
  fieldsOf,
  type Labels,
  MalformedError,
  type PodRules,
  type PodWorker,
  readPod,
  versionOf,
} from "./pod.ts";

/** A cluster's interface. */
export interface Cluster {
  /**
   * Asks with the credentials of this moment, which the cluster changes.
   *
   * @param path With the query.
   * @throws when it cannot be reached, or the credentials cannot be read.
   */
  get(path: string, signal: AbortSignal): Promise<UpstreamAnswer>;
}

export interface PodWatchOptions extends PodRules {
  readonly cluster: Cluster;
  /** Default: all. */
  readonly namespace?: string | undefined;
  readonly times: WatchTimes;
  /** The pods that are ready to serve, after each change. */
  readonly onPods: (pods: Iterable<PodWorker>) => void;
  readonly tell: (level: "info" | "warning", text: string) => void;
}

/** Milliseconds. */
export interface WatchTimes {
  /** Before it is tried again; twice as long each further time. */
  readonly backoff: number;
  readonly longestBackoff: number;
  /** After which the cluster ends a watch, and one that is silent counts as lost half as much later. */
  readonly watch: number;
}

export const WATCH_TIMES: WatchTimes = { backoff: 1000, longestBackoff: 30_000, watch: 240_000 };

/** Pods in one part of a list; fewer after one that had too many bytes. */
const PAGE_PODS = 100;
/** Bytes of such a part. */
export const MAX_LIST_BYTES = 16 * 2 ** 20;
/** Parts of a list. */
export const MAX_LIST_PARTS = 10_000;
/** Pods that are ready to serve. */
export const MAX_PODS = 4096;
/** Milliseconds in which a part of a list is there. */
const LIST_TIME = 60_000;
/** Bytes of an answer that says what is wrong. */
const MAX_PROBLEM_BYTES = 65_536;
/** Milliseconds of a watch after which the next begins at once. */
const LONG_WATCH = 5000;

/** The cluster does not do what it is asked. */
class ClusterError extends Error {}

/** What the watch stands on is no longer there. */
class GoneError extends ClusterError {}

/** A part of a list does not fit. */
class TooLargeError extends Error {}

export class PodWatch {
  readonly #options: PodWatchOptions;
  readonly #path: string;
  #pods = new Map<string, PodWorker>();
  /** Of the last change that is known; undefined where a list comes next. */
  #version: string | undefined;
  #pagePods = PAGE_PODS;
  /** Rounds in a row that brought nothing. */
  #failures = 0;
  #problem = "";

  constructor(options: PodWatchOptions) {
    this.#options = options;
    const { namespace } = options;
    const place = namespace === undefined ? "" : `/namespaces/${encodeURIComponent(namespace)}`;
    this.#path = `/api/v1${place}/pods?${selectorOf(options)}`;
  }

  /** Follows until the signal ends it; never rejects. */
  async run(signal: AbortSignal): Promise<void> {
    while (!signal.aborted) {
      const wait = await this.#round(signal).then(
        () => 0,
        (error: Error) => this.#waitAfter(error),
      );
      if (signal.aborted) return;
      const steps = this.#failures + wait;
      this.#failures += 1;
      if (steps > 0) await sleep(this.#backoff(steps - 1), signal).catch(() => {});
    }
  }

  /** What it is told of. @returns 1 where even the first time must not be tried again at once. */
  #waitAfter(error: Error): 0 | 1 {
    if (error instanceof TooLargeError && this.#pagePods > 1) {
      this.#pagePods = Math.floor(this.#pagePods / 2);
      return 0;
    }
    const isGone = error instanceof GoneError;
    if (isGone || error instanceof MalformedError) this.#version = undefined;
    if (isGone && this.#failures === 0) return 0;
    if (this.#problem !== error.message) {
      this.#options.tell("warning", `Cannot follow the pods of the cluster: ${error.message}`);
    }
    this.#problem = error.message;
    return 1;
  }

  #backoff(doublings: number): number {
    const { backoff, longestBackoff } = this.#options.times;
    // Routers that one fault has stopped must not come back all at once.
    const jitter = 0.75 + Math.random() / 2;
    return Math.min(backoff * 2 ** Math.min(doublings, 30), longestBackoff) * jitter;
  }

  async #round(signal: AbortSignal): Promise<void> {
    if (this.#version === undefined) await this.#list(signal);
    const from = performance.now();
    try {
      await this.#follow(signal);
    } finally {
      if (performance.now() - from > LONG_WATCH) this.#failures = 0;
    }
  }

  async #list(signal: AbortSignal): Promise<void> {
    const pods = new Map<string, PodWorker>();
    let next = "";
    for (let part = 0; ; part++) {
      if (part === MAX_LIST_PARTS) throw new MalformedError("its list does not end");
      const page = await this.#page(next, signal);
      const { items, metadata } = fieldsOf(page);
      if (!Array.isArray(items)) throw new MalformedError("its list has no items");
      for (const item of items) this.#take(pods, item);
      const more = fieldsOf(metadata).continue ?? "";
      if (typeof more !== "string")
        throw new MalformedError("its list does not say how it goes on");
      next = more;
      if (next !== "") continue;
      this.#version = versionOf(page);
      break;
    }
    this.#pods = pods;
    this.#recovered();
    this.#options.onPods(pods.values());
  }

  async #page(next: string, signal: AbortSignal): Promise<unknown> {
    const more = next === "" ? "" : `&continue=${encodeURIComponent(next)}`;
    const path = `${this.#path}limit=${this.#pagePods}${more}`;
    return within({ signal, timeout: LIST_TIME, what: "the pods" }, async (limit) => {
      const { body } = await this.#ask(path, limit);
      const tooLarge = () =>
        new TooLargeError(`${this.#pagePods} of its pods have more than ${MAX_LIST_BYTES} bytes`);
      return parsed(await readText(body, MAX_LIST_BYTES, tooLarge));
    });
  }

  /** Follows changes until the cluster ends the watch. */
  async #follow(signal: AbortSignal): Promise<void> {
    const { watch } = this.#options.times;
    const version = encodeURIComponent(this.#version!);
    const seconds = Math.ceil(watch / 1000);
    const path = `${this.#path}watch=true&allowWatchBookmarks=true&resourceVersion=${version}&timeoutSeconds=${seconds}`;
    await within({ signal, timeout: 1.5 * watch, what: "changes of pods" }, async (limit) => {
      const { body } = await this.#ask(path, limit);
      try {
        for await (const line of eventLines(body)) {
          this.#event(parsed(line));
          this.#failures = 0;
          this.#recovered();
        }
      } finally {
        body.cancel();
      }
    });
  }

  #event(event: unknown): void {
    const { type, object } = fieldsOf(event);
    if (type === "ERROR") {
      const { code, message } = fieldsOf(object);
      // Whatever it is, no change behind it would be whole.
      throw code === GONE ? problemOf(code, message) : new MalformedError(textOf(code, message));
    }
    if (type === "ADDED" || type === "MODIFIED") this.#take(this.#pods, object);
    else if (type === "DELETED") this.#pods.delete(readPod(object, this.#options).uid);
    else if (type !== "BOOKMARK") throw new MalformedError("an event has no type");
    this.#version = versionOf(object);
    if (type !== "BOOKMARK") this.#options.onPods(this.#pods.values());
  }

  #take(pods: Map<string, PodWorker>, pod: unknown): void {
    const { uid, worker } = readPod(pod, this.#options);
    if (worker === undefined) pods.delete(uid);
    else if (pods.has(uid) || pods.size < MAX_PODS) pods.set(uid, worker);
    else throw new MalformedError(`more than ${MAX_PODS} pods are workers`);
  }

  async #ask(path: string, signal: AbortSignal): Promise<UpstreamAnswer> {
    const answer = await this.#options.cluster.get(path, signal);
    if (answer.status === 200) return answer;
    const tooLarge = () => new MalformedError(`it answers ${answer.status} with too many bytes`);
    const text = await readText(answer.body, MAX_PROBLEM_BYTES, tooLarge);
    let message: unknown;
    try {
      message = fieldsOf(JSON.parse(text)).message;
    } catch {
      message = text;
    }
    throw problemOf(answer.status, message);
  }

  #recovered(): void {
    if (this.#problem !== "")
      this.#options.tell("info", "The pods of the cluster are followed again");
    this.#problem = "";
  }
}

const GONE = 410;

function problemOf(code: unknown, message: unknown): Error {
  const text = textOf(code, message);
  return code === GONE ? new GoneError(text) : new ClusterError(text);
}

function textOf(code: unknown, message: unknown): string {
  return `it answers ${Number(code)}: ${String(message).slice(0, 300)}`;
}

function parsed(text: string): unknown {
  try {
    return JSON.parse(text);
  } catch {
    throw new MalformedError("it sends what is no JSON");
  }
}

/** The labels that all rules share, which the cluster can look for; the router looks for the others. */
function selectorOf({ rules }: PodRules): string {
  const [first, ...others] = rules.map(({ labels }) => Object.entries(labels));
  const shared = first!.filter(([key, value]) =>
    others.every((labels) => labels.some(([name, own]) => name === key && own === value)),
  );
  const text = shared.map(([key, value]: [keyof Labels, string]) => `${key}=${value}`).join(",");
  return text === "" ? "" : `labelSelector=${encodeURIComponent(text)}&`;
}
