/**
 * Workers that are pods: added when a pod is ready, removed when it no longer is; what such a worker
 * answers goes on to its end.
 *
 * @module
 */
import { EngineError } from "../../errors.ts";
import type { RouterObserver } from "../observer.ts";
import type { HealthChecks } from "../worker/health_checks.ts";
import type { Worker } from "../worker/worker.ts";
import type { Workers } from "../worker/workers.ts";
import type { PodWorker } from "./pod.ts";

interface Surroundings {
  readonly workers: Workers;
  readonly checks: HealthChecks;
  readonly observer: RouterObserver;
}

interface Discovered {
  readonly key: string;
  readonly worker: Worker;
}

export class DiscoveredWorkers {
  readonly #around: Surroundings;
  readonly #byUrl = new Map<string, Discovered>();
  /** Pods that could not be added, by their addresses. */
  #refused = new Map<string, string>();

  constructor(around: Surroundings) {
    this.#around = around;
  }

  /**
   * Makes workers of these pods, and of no others. Those that were added by hand are left alone, and
   * one that was removed by hand stays away until its pod is another one, or ready anew.
   */
  update(pods: Iterable<PodWorker>): void {
    const { workers, observer } = this.#around;
    observer.discovery("update");
    const wanted = this.#wanted(pods);
    for (const [url, { key, worker }] of this.#byUrl) {
      const pod = wanted.get(url);
      if (pod !== undefined && keyOf(pod) === key) continue;
      this.#byUrl.delete(url);
      if (!workers.has(worker)) continue;
      workers.remove(url);
      observer.discovery("removed");
      this.#tell("info", `Worker ${url} is no pod any more that is ready`);
    }
    const refused = new Map<string, string>();
    for (const pod of wanted.values()) {
      if (this.#byUrl.has(pod.url)) continue;
      const problem = this.#add(pod);
      if (problem === undefined) continue;
      refused.set(pod.url, problem);
      if (this.#refused.get(pod.url) !== problem) this.#tell("warning", problem);
    }
    this.#refused = refused;
  }

  /** One pod for each address: the one that is a worker already, else the first. */
  #wanted(pods: Iterable<PodWorker>): ReadonlyMap<string, PodWorker> {
    const wanted = new Map<string, PodWorker>();
    for (const pod of pods) {
      const isKnown = this.#byUrl.get(pod.url)?.key === keyOf(pod);
      if (isKnown || !wanted.has(pod.url)) wanted.set(pod.url, pod);
    }
    return wanted;
  }

  /** @returns What is wrong. */
  #add(pod: PodWorker): string | undefined {
    const { url, role, bootstrapPort, name } = pod;
    const { workers, observer } = this.#around;
    let worker: Worker;
    try {
      worker = workers.add(url, { role, bootstrapPort });
    } catch (error) {
      if (!(error instanceof EngineError)) throw error;
      return `Pod ${name} is no worker: ${error.message}`;
    }
    this.#byUrl.set(url, { key: keyOf(pod), worker });
    observer.discovery("added");
    const what = role === "plain" ? "worker" : `${role} worker`;
    this.#tell("info", `Pod ${name} is the ${what} ${url}`);
    void this.#admit(worker, name);
    return undefined;
  }

  /** A pod stays a worker as long as it is ready: one that answers late is asked on. */
  async #admit(worker: Worker, name: string): Promise<void> {
    const { workers, checks } = this.#around;
    try {
      while (!(await checks.admit(worker)) && workers.has(worker)) {
        this.#tell("warning", `Pod ${name} is ready, and worker ${worker.url} is not healthy`);
      }
    } catch {
      // The router stops.
    }
  }

  #tell(level: "info" | "warning", text: string): void {
    this.#around.observer.event({ level, text, fields: { message: text } });
  }
}

/** What may not change of a worker. */
function keyOf({ uid, role, bootstrapPort }: PodWorker): string {
  return `${uid} ${role} ${bootstrapPort}`;
}
