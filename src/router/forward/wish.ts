/**
 * What the body of a request says of where it should go.
 *
 * @module
 */
import { isObject } from "../../http/fields.ts";
import type { Target, Worker } from "../worker/worker.ts";
import { REPLICA_FIELD } from "./bootstrap_body.ts";

/** What a body says of where it should go. */
export interface Wish {
  /** Empty where no policy looks at it, or it has none. */
  readonly prompt: string;
  /** Whether a replica may be written into it, and is to be. */
  readonly takesReplica: boolean;
  /** The replica that it names. */
  readonly replica?: number | undefined;
}

export const NO_WISH: Wish = { prompt: "", takesReplica: false };

/** By which a body names a replica. */
const REPLICA_FIELDS = [REPLICA_FIELD, "routed_dp_rank"] as const;

/**
 * Of workers that are there. Where a client names a replica that none of them has, one of them says so.
 */
export function targetsOf(workers: readonly Worker[], wish: Wish): readonly Target[] {
  if (!wish.takesReplica) return workers;
  const all = workers.flatMap(({ targets }) => targets);
  if (wish.replica === undefined) return all;
  const named = all.filter(({ replica }) => replica === wish.replica);
  return named.length > 0 ? named : workers;
}

/** Undefined where a body names none; `NaN` where it names what is none, as the worker will say. */
export function namedReplica(body: unknown): number | undefined {
  if (!isObject(body)) return undefined;
  const named = REPLICA_FIELDS.map((name) => body[name]).find(
    (value) => value !== undefined && value !== null,
  );
  return named === undefined || typeof named === "number" ? named : Number.NaN;
}
