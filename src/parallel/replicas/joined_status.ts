/**
 * What several replicas say of themselves, as one engine says it.
 *
 * @module
 */
import type { EngineStatus } from "../../generation.ts";
import type { PrefixStoreStatus } from "../../prefix_cache.ts";
import type { SpeculationFigures } from "../../speculation_figures.ts";

/** @param replicas At least one; a replica that is gone counts for what it did, not for its places. */
export function joinedStatus(replicas: readonly EngineStatus[]): EngineStatus {
  const living = replicas.filter(({ healthy }) => healthy);
  const there = living.length > 0 ? living : replicas;
  const [first] = there;
  const all = (name: Figure) => sum(replicas.map((one) => one[name]));
  const places = (name: Figure) => sum(there.map((one) => one[name]));
  const queues = there.map(({ maxQueuedRequests }) => maxQueuedRequests);
  const restarts = replicas.flatMap((one) => one.restarts ?? []);
  const overlapped = replicas.flatMap((one) => one.overlappedSteps ?? []);
  const working = living.filter(({ recovering }) => !recovering);
  return {
    healthy: living.length > 0,
    recovering: working.length === 0 && replicas.some(({ recovering }) => recovering),
    recoveries: all("recoveries"),
    runningRequests: all("runningRequests"),
    maxRunningRequests: places("maxRunningRequests"),
    queuedRequests: all("queuedRequests"),
    ...(queues.every((one) => one !== undefined) && { maxQueuedRequests: sum(queues) }),
    queuedTokens: all("queuedTokens"),
    totalTokens: places("totalTokens"),
    usedTokens: all("usedTokens"),
    cachedTokens: all("cachedTokens"),
    retractions: all("retractions"),
    retractedRequests: all("retractedRequests"),
    weightBytes: all("weightBytes"),
    cacheBytes: all("cacheBytes"),
    // Requests go on as long as steps of one of them finish.
    stalledFor: (working.length > 0 ? working : there).reduce(
      (least, { stalledFor }) => Math.min(least, stalledFor),
      Number.POSITIVE_INFINITY,
    ),
    batchInvariant: replicas.every(({ batchInvariant }) => batchInvariant),
    numericClasses: first!.numericClasses,
    ...(restarts.length > 0 && { restarts: sum(restarts) }),
    ...(overlapped.length > 0 && { overlappedSteps: sum(overlapped) }),
    ...joinedSpeculation(replicas.flatMap(({ speculation }) => speculation ?? [])),
    ...joinedStore(replicas.flatMap(({ prefixStore }) => prefixStore ?? [])),
    replicas,
  };
}

type Figure = {
  [Name in keyof EngineStatus]-?: EngineStatus[Name] extends number ? Name : never;
}[keyof EngineStatus];

const sum = (values: readonly number[]): number => values.reduce((a, b) => a + b, 0);

function joinedSpeculation(
  figures: readonly SpeculationFigures[],
): Pick<EngineStatus, "speculation"> {
  if (figures.length === 0) return {};
  const of = (name: keyof SpeculationFigures) => sum(figures.map((one) => one[name]));
  return {
    speculation: {
      verifySteps: of("verifySteps"),
      proposedDrafts: of("proposedDrafts"),
      acceptedDrafts: of("acceptedDrafts"),
    },
  };
}

/** They share one storage, and each knows it as it last saw it. */
function joinedStore(stores: readonly PrefixStoreStatus[]): Pick<EngineStatus, "prefixStore"> {
  if (stores.length === 0) return {};
  return {
    prefixStore: {
      bytes: stores.reduce((most, { bytes }) => Math.max(most, bytes), 0),
      storedTokens: sum(stores.map(({ storedTokens }) => storedTokens)),
      restoredTokens: sum(stores.map(({ restoredTokens }) => restoredTokens)),
    },
  };
}
