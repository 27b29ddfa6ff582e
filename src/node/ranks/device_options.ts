/**
 * Options that choose devices, and how many ranks take them.
 *
 * @module
 */
import { ADAPTER_PREFERENCES } from "../device/adapter_preference.ts";
import type { OptionTable } from "../options/option_parser.ts";

const DEVICE = "Device";
/** More than any machine has adapters. */
const MOST_ADAPTERS = 1024;

export const DEVICE_OPTIONS = {
  adapter: {
    flags: ["--adapter"],
    kind: "string",
    choices: ADAPTER_PREFERENCES,
    defaultText: "the variable WISP_ADAPTER, else auto",
    help: "GPU adapter: the best there is, a GPU and nothing else, or one of the drivers for the CPU",
    group: DEVICE,
  },
  baseGpuId: {
    flags: ["--base-gpu-id"],
    kind: "integer",
    value: "N",
    min: 0,
    max: MOST_ADAPTERS,
    defaultText: "the best adapter for one rank, else 0",
    help:
      "number of the adapter that the first rank of this machine takes, of those that --adapter finds; " +
      "where there are GPUs, they alone are counted",
    group: DEVICE,
  },
  gpuIdStep: {
    flags: ["--gpu-id-step"],
    kind: "integer",
    value: "N",
    min: 0,
    max: MOST_ADAPTERS,
    defaultText: "1: ranks take turns in the GPUs; 0 where the adapter runs on the CPU",
    help: "what the adapter's number grows by from one rank of this machine to the next; 0 has them share one",
    group: DEVICE,
  },
  tpSize: {
    flags: ["--tp-size", "--tp", "--tensor-parallel-size"],
    kind: "integer",
    value: "N",
    min: 1,
    default: 1,
    help:
      "ranks that split every layer, with the same answers: all in this process, or each a process where " +
      "--nnodes is given",
    group: DEVICE,
  },
  enableTorchCompile: {
    flags: ["--enable-torch-compile"],
    kind: "flag",
    default: false,
    help:
      "measure at the first start which form of the kernels is the fastest on this adapter, which takes " +
      "minutes, and keep it for all later starts, as wisp tune does",
    group: DEVICE,
  },
} as const satisfies OptionTable;
