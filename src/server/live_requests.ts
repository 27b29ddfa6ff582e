/**
 * The requests that are being answered, by the ids that clients gave them.
 *
 * A client's id may stand for one generation or for several: the items of a batch, or the answers
 * to one prompt.
 *
 * @module
 */
import { InvalidRequestError } from "../errors.ts";
import type { GenerationEngine, GenerationRequest } from "../generation.ts";
import { newRequestId } from "../generation.ts";

/** Generations of one HTTP request, and the ids that stand for several of them. */
export interface IdentifiedRequests {
  readonly requests: readonly GenerationRequest[];
  /** Id -> positions in `requests`. */
  readonly groups: ReadonlyMap<string, readonly number[]>;
}

export interface AdmittedRequests {
  readonly requests: readonly GenerationRequest[];
  /** Frees the ids. */
  readonly leave: () => void;
}

export class LiveRequests {
  /** Id of a client -> ids of its generations. */
  readonly #ids = new Map<string, readonly string[]>();

  /**
   * Takes the ids of a request until it leaves, and gives its generations ids where a group needs them.
   *
   * @throws {InvalidRequestError} when one of them is taken.
   */
  admit({ requests, groups }: IdentifiedRequests): AdmittedRequests {
    const grouped = new Set([...groups.values()].flat());
    const identified = requests.map((request, i) =>
      grouped.has(i) ? { ...request, requestId: request.requestId ?? newRequestId() } : request,
    );
    const ids = new Map<string, readonly string[]>();
    for (const { requestId } of identified) {
      if (requestId !== undefined) ids.set(requestId, [requestId]);
    }
    for (const [id, positions] of groups) {
      const own = ids.get(id) ?? [];
      const others = positions.map((position) => identified[position]!.requestId!);
      ids.set(id, [...own, ...others]);
    }
    const taken = [...ids.keys()].find((id) => this.#ids.has(id));
    if (taken !== undefined) {
      throw new InvalidRequestError(`Duplicate request ID ${JSON.stringify(taken)}`, "rid");
    }
    for (const [id, generations] of ids) this.#ids.set(id, generations);
    const leave = () => {
      for (const id of ids.keys()) this.#ids.delete(id);
      // Another request may have one of them by the second time.
      ids.clear();
    };
    return { requests: identified, leave };
  }

  /** Ends what stands behind an id: a client's, or one that the engine gave a generation itself. */
  abort(engine: GenerationEngine, id: string): void {
    for (const generation of this.#ids.get(id) ?? [id]) engine.abort(generation);
  }
}
