/**
 * Keeps the workers of a router those that a Kubernetes cluster has.
 *
 * @module
 */
import type { Router } from "../../router/app.ts";
import { DiscoveredWorkers } from "../../router/discovery/discovered_workers.ts";
import { PodWatch, WATCH_TIMES } from "../../router/discovery/pod_watch.ts";
import type { RouterObserver } from "../../router/observer.ts";
import { podRulesOf } from "./discovery_options.ts";
import { clusterAddress, clusterAt } from "./kubernetes.ts";
import type { RouterLaunchOptions } from "./router_options.ts";

/**
 * @returns Begins, until the signal ends it; undefined where no pods are looked for.
 * @throws {OptionError} where the process is in no cluster and is told of none.
 */
export function podFollower(
  options: RouterLaunchOptions,
): ((router: Router, observer: RouterObserver, signal: AbortSignal) => void) | undefined {
  const rules = podRulesOf(options);
  if (rules === undefined) return undefined;
  const cluster = clusterAt(clusterAddress(options.serviceDiscoveryApi, process.env));
  return (router, observer, signal) => {
    const discovered = new DiscoveredWorkers({ ...router, observer });
    const watch = new PodWatch({
      ...rules,
      cluster,
      namespace: options.serviceDiscoveryNamespace,
      times: WATCH_TIMES,
      onPods: (pods) => discovered.update(pods),
      tell: (level, text) => observer.event({ level, text, fields: { message: text } }),
    });
    void watch.run(signal);
  };
}
