/**
 * Places for the answers that one request asks for, looked at before anything is made for them: a
 * few bytes can ask for a great many.
 *
 * @module
 */
import { CapacityError, InvalidRequestError } from "../errors.ts";
import type { GenerationEngine } from "../generation.ts";

/**
 * @param count Answers: one for each sample of each prompt.
 * @param field What asks for so many.
 * @throws {InvalidRequestError} when so many could never run and wait together.
 * @throws {CapacityError} when there is no room for all of them now.
 */
export function requirePlaces(
  engine: Pick<GenerationEngine, "status">,
  count: number,
  field: string,
): void {
  const { maxQueuedRequests, maxRunningRequests, runningRequests, queuedRequests } =
    engine.status();
  if (maxQueuedRequests === undefined) return;
  const most = maxRunningRequests + maxQueuedRequests;
  if (count > most) {
    throw new InvalidRequestError(
      `Cannot take ${count} answers at once: ${maxRunningRequests} may run and ${maxQueuedRequests} wait`,
      field,
    );
  }
  const free = Math.max(most - runningRequests - queuedRequests, 0);
  if (count <= free) return;
  const state = `${count} are wanted and ${free} of ${most} are free; a request that ends frees one`;
  throw new CapacityError("places in the request queue", maxQueuedRequests, state);
}
