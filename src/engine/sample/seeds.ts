/**
 * Where the seeds of requests without one come from.
 *
 * @module
 */

/** Seeds for requests without one: a fixed sequence when a seed is given. */
export function seeds(seed: number | undefined): () => number {
  if (seed === undefined) return () => crypto.getRandomValues(new Uint32Array(1))[0]!;
  let state = seed >>> 0;
  return () => {
    state = (state + 0x9e3779b9) >>> 0;
    return state;
  };
}
