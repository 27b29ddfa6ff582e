/**
 * Variables of the environment that belong to servers of this kind and do nothing here: a person
 * who sets one is told so, and what to use instead.
 *
 * @module
 */
import type { Environment } from "../hub/hub_settings.ts";

/** Variables that are read, each where it is needed. */
const READ: ReadonlySet<string> = new Set([
  "SVC_CHUNKED_PREFIX_CACHE_THRESHOLD",
  "SVC_ENABLE_JIT_DEEPGEMM",
  "SVC_MOONCAKE_TRANS_THREAD",
]);

/** Why a variable, or all that begin so, have no effect. The first that fits is told. */
const WITHOUT_EFFECT: readonly (readonly [begin: string, why: string])[] = [
  [
    "SVC_HACK_DEEPEP_",
    "experts are not exchanged over a network, so no part of the device is set aside for that",
  ],
  ["SVC_SET_CPU_AFFINITY", "the system places threads; use taskset or numactl around the command"],
  ["SVC_", "it is not known; use the options of --help"],
  ["NCCL_IB_", "ranks are not joined by a network yet; use one device"],
  ["NVSHMEM_", "ranks are not joined by a network yet; use one device"],
];

/** One sentence for each variable that is set for nothing, by name. */
export function environmentWarnings(env: Environment): readonly string[] {
  return Object.keys(env)
    .filter((name) => env[name] !== undefined && !READ.has(name))
    .sort()
    .flatMap((name) => {
      const why = WITHOUT_EFFECT.find(([begin]) => name.startsWith(begin))?.[1];
      return why === undefined ? [] : [`the variable ${name} has no effect here: ${why}`];
    });
}
