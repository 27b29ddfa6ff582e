/**
 * Variables of the environment that are read, and what each does.
 *
 * @module
 */

import type { Environment } from "../hub/hub_settings.ts";

interface KnownVariable {
  readonly name: string;
  readonly effect: string;
  /** The log must not show its value. */
  readonly isSecret?: boolean;
}

const KNOWN: readonly KnownVariable[] = [
  { name: "WISP_ADAPTER", effect: "chooses the adapter where --adapter does not" },
  { name: "VK_DRIVER_FILES", effect: "names the Vulkan drivers that are looked at" },
  { name: "VK_ICD_FILENAMES", effect: "older name of VK_DRIVER_FILES" },
  { name: "LP_NUM_THREADS", effect: "threads of lavapipe" },
  { name: "GALLIVM_PERF", effect: "optimizations of lavapipe; nopt makes answers slow" },
  { name: "MESA_SHADER_CACHE_DIR", effect: "folder for shaders that Mesa has compiled" },
  { name: "HF_TOKEN", effect: "access token of the model hub", isSecret: true },
  { name: "HUGGING_FACE_HUB_TOKEN", effect: "older name of HF_TOKEN", isSecret: true },
  { name: "HF_TOKEN_PATH", effect: "file with the access token of the model hub" },
  { name: "HF_HOME", effect: "folder for downloaded models and the access token" },
  { name: "HF_HUB_CACHE", effect: "folder for downloaded models" },
  { name: "HUGGINGFACE_HUB_CACHE", effect: "older name of HF_HUB_CACHE" },
  { name: "HF_ENDPOINT", effect: "address of the model hub" },
  { name: "HF_HUB_OFFLINE", effect: "1 forbids downloads" },
  { name: "XDG_CACHE_HOME", effect: "folder for caches, in place of ~/.cache" },
  {
    name: "SVC_CHUNKED_PREFIX_CACHE_THRESHOLD",
    effect: "cached tokens from which prompts of DeepSeek models expand them in chunks",
  },
  { name: "SVC_ENABLE_JIT_DEEPGEMM", effect: "0 takes the plain kernels" },
  { name: "SVC_SET_CPU_AFFINITY", effect: "true binds each rank process to CPUs of its own" },
  { name: "NCCL_IB_HCA", effect: "network devices that ranks of several machines send through" },
  { name: "UCX_NET_DEVICES", effect: "the same, as UCX names them" },
  { name: "WISP_MPICC", effect: "compiler of MPI that builds what ranks talk to it through" },
  { name: "WISP_RANK_THREADS", effect: "1 has ranks of one process on threads, 0 on one thread" },
  { name: "OPENAI_API_KEY", effect: "key that bench_serving shows to a server", isSecret: true },
];

/** A variable that is set. */
export interface SetVariable {
  readonly name: string;
  /** Undefined for a secret. */
  readonly value: string | undefined;
  readonly effect: string;
}

/** Those that are read, in the order of the table. */
export function setVariables(env: Environment): readonly SetVariable[] {
  return KNOWN.filter(({ name }) => env[name]).map(({ name, effect, isSecret }) => ({
    name,
    value: isSecret === true ? undefined : env[name],
    effect,
  }));
}
