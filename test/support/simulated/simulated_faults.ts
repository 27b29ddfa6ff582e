/**
 * Parts of a simulated engine that fail: pages, their ways, host memory, what is done with a token.
 *
 * @module
 */
import type { PagePool } from "../../../src/cache/page_pool.ts";
import type { RadixCache } from "../../../src/cache/radix_cache.ts";
import type {
  PageCarrier,
  RetractionMemory,
} from "../../../src/engine/schedule/retraction_memory.ts";
import type { Sequence } from "../../../src/engine/schedule/sequence.ts";

export type FailingMethod =
  | "allocate"
  | "readPages"
  | "writePages"
  | "accept"
  | "save"
  | "restore"
  | "insert"
  | "match";

interface Parts {
  readonly pool: PagePool;
  readonly carrier: PageCarrier;
  readonly memory: RetractionMemory;
  readonly radix: RadixCache | undefined;
  readonly live: ReadonlySet<Sequence>;
}

/** @param pass Called before each call of the method; what it throws is what the call fails with. */
export function failParts(
  { pool, carrier, memory, radix, live }: Parts,
  method: FailingMethod,
  pass: () => void,
): void {
  const guarded = <Given extends unknown[], T>(work: (...given: Given) => T) => {
    return (...given: Given): T => {
      pass();
      return work(...given);
    };
  };
  switch (method) {
    case "allocate":
      pool.allocate = guarded(pool.allocate.bind(pool));
      break;
    case "readPages":
      carrier.readPages = rejecting(guarded(carrier.readPages));
      break;
    case "writePages":
      carrier.writePages = rejecting(guarded(carrier.writePages));
      break;
    case "accept":
      for (const one of live) one.accept = guarded(one.accept.bind(one));
      break;
    case "save":
      memory.save = guarded(memory.save.bind(memory));
      break;
    case "restore":
      memory.restore = guarded(memory.restore.bind(memory));
      break;
    case "insert":
      if (radix !== undefined) radix.insert = guarded(radix.insert.bind(radix));
      break;
    case "match":
      if (radix !== undefined) radix.match = guarded(radix.match.bind(radix));
      break;
    default:
      method satisfies never;
  }
}

/** What is thrown comes as a rejection, as from the codec. */
function rejecting<Given extends unknown[], T>(work: (...given: Given) => Promise<T>) {
  return async (...given: Given): Promise<T> => work(...given);
}
