/**
 * Variables of the environment that belong to servers of this kind and do nothing here: a person
 * who sets one is told so, and what to use instead.
 *
 * @module
 */
import { HCA, networkDevices } from "../device/network_devices.ts";
import type { Environment } from "../hub/hub_settings.ts";
import { bindsRanks, CPU_AFFINITY } from "../ranks/rank_cpus.ts";

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
    "experts' results are exchanged by the processor, so no part of a device is set aside for that",
  ],
  [
    "SGLANG_DEEPEP_",
    "exchanges have room for all rows of a step; --deepep-mode chooses between their forms",
  ],
  ["SGLANG_EXPERT_DISTRIBUTION_RECORDER_DIR", "use --expert-distribution-recorder-dir"],
  [
    "SGLANG_EXPERT_LOCATION_UPDATER_",
    "nothing is written behind experts that move; ranks compare what they draw after every step",
  ],
  ["SVC_", "it is not known; use the options of --help"],
  ["NCCL_IB_", "ranks send through UCX, whose own variables say this: ucx_info -c lists them"],
  ["NVSHMEM_", "ranks send through MPI, and devices write to no memory of others"],
];

/**
 * Who starts ranks as processes of their own: none are, this program does, or a launcher around it; or they
 * are threads.
 */
export type RankProcesses = "none" | "threads" | "ours" | "outer";

/** Those that are of use to ranks alone, and only where each is a process. */
const OF_PROCESSES: Readonly<
  Record<string, (env: Environment, processes: RankProcesses) => string | undefined>
> = {
  [CPU_AFFINITY]: (env, processes) =>
    bindsRanks(env) && processes === "outer"
      ? "the launcher that has started the ranks places them on CPUs; its own options bind them"
      : undefined,
  [HCA]: (env) => networkDevices(env).problem,
};

/**
 * One sentence for each variable that is set for nothing, by name.
 *
 * @throws {OptionError} when one that is read has no value of its kind.
 */
export function environmentWarnings(env: Environment, processes: RankProcesses): readonly string[] {
  return Object.keys(env)
    .filter((name) => env[name] !== undefined && !READ.has(name))
    .sort()
    .flatMap((name) => {
      const why = whyWithoutEffect(name, env, processes);
      return why === undefined ? [] : [`the variable ${name} has no effect here: ${why}`];
    });
}

function whyWithoutEffect(
  name: string,
  env: Environment,
  processes: RankProcesses,
): string | undefined {
  if (!Object.hasOwn(OF_PROCESSES, name)) {
    return WITHOUT_EFFECT.find(([begin]) => name.startsWith(begin))?.[1];
  }
  const problem = OF_PROCESSES[name]!(env, processes);
  const noProcesses = "it is for ranks that are processes, as --nnodes makes them";
  return processes === "none" || processes === "threads" ? noProcesses : problem;
}
