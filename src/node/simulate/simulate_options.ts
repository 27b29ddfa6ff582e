/**
 * Options of `wisp simulate`.
 *
 * @module
 */
import { WEIGHT_TYPES } from "../../engine/load/sizing.ts";
import { MOST_RANKS } from "../../parallel/communicator.ts";
import type { OptionTable } from "../options/option_parser.ts";
import { ENGINE_OPTIONS, INSPECT_OPTIONS } from "../options/options.ts";
import { REPLICA_OPTIONS } from "../replicas/replica_options.ts";

/** None of them is started. */
const MOST_SIMULATED = 4096;

const LAYOUT = "Devices";
const SPEED = "Their speed";
const DEMAND = "What is asked of them";

export const SIMULATE_OPTIONS = {
  modelPath: {
    ...ENGINE_OPTIONS.modelPath,
    defaultText: "deepseek-ai/DeepSeek-V3",
    help:
      "folder of a model, the id of one that was downloaded, in part too, or an id whose shape is known: " +
      "DeepSeek-V3 and R1, Qwen3-8B, Qwen3-30B-A3B",
  },
  revision: ENGINE_OPTIONS.revision,
  weightType: {
    flags: ["--weight-type"],
    kind: "string",
    choices: WEIGHT_TYPES,
    defaultText: "as published",
    help: "takes the model's weights to be published in this type",
    group: "Model",
  },
  quantization: ENGINE_OPTIONS.quantization,
  contextLength: ENGINE_OPTIONS.contextLength,
  devices: {
    flags: ["--devices"],
    kind: "integer",
    value: "N",
    min: 1,
    defaultText: "those of the layout",
    help: "devices in all, which the layout must come to",
    group: LAYOUT,
  },
  tpSize: {
    flags: ENGINE_OPTIONS.tpSize.flags,
    kind: "integer",
    value: "N",
    min: 1,
    max: MOST_RANKS,
    defaultText: "--devices / --dp-size",
    help: "ranks of a replica, each with a device",
    group: LAYOUT,
  },
  dpSize: {
    ...REPLICA_OPTIONS.dpSize,
    max: MOST_SIMULATED,
    help: "replicas of the model",
    group: LAYOUT,
  },
  epSize: { ...ENGINE_OPTIONS.epSize, group: LAYOUT },
  prefillReplicas: {
    flags: ["--prefill-replicas"],
    kind: "integer",
    value: "N",
    min: 0,
    default: 0,
    help: "so many of the replicas read prompts alone, the others generate alone",
    group: LAYOUT,
  },
  ranksPerAdapter: {
    flags: ["--ranks-per-adapter"],
    kind: "integer",
    value: "N",
    min: 1,
    default: 1,
    help: "ranks of a replica that take turns in one adapter and its host",
    group: LAYOUT,
  },
  deviceMemory: {
    ...ENGINE_OPTIONS.deviceMemory,
    flags: ["--device-memory", "--memory"],
    defaultText: "80G",
    help: "memory of one device",
    group: LAYOUT,
  },
  memFractionStatic: { ...ENGINE_OPTIONS.memFractionStatic, group: LAYOUT },
  kvCacheDtype: { ...ENGINE_OPTIONS.kvCacheDtype, group: LAYOUT },
  maxRunningRequests: {
    ...ENGINE_OPTIONS.maxRunningRequests,
    defaultText: "256",
    group: LAYOUT,
  },
  chunkedPrefillSize: {
    flags: ["--chunked-prefill-size"],
    kind: "integer",
    value: "N",
    min: 1,
    max: 8192,
    default: 2048,
    help: "prompt tokens of one step at most",
    group: LAYOUT,
  },
  profile: {
    flags: ["--profile"],
    kind: "string",
    value: "FILE",
    defaultText: "that of an NVIDIA H200",
    help: "what was measured of an adapter, as --measure writes it",
    group: SPEED,
  },
  measure: {
    flags: ["--measure"],
    kind: "string",
    value: "FILE",
    help:
      "measure this machine's adapter with the model, which must be here whole, write its profile to the " +
      "file and go by it. Nothing else should use the adapter meanwhile",
    group: SPEED,
  },
  bandwidth: {
    flags: ["--bandwidth"],
    kind: "string",
    value: "RATE",
    defaultText: "the profile's",
    help: "rate of the device's memory, as 3350GB/s: what a kernel that only copies reads and writes",
    group: SPEED,
  },
  flops: {
    flags: ["--flops"],
    kind: "number",
    value: "TFLOPS",
    min: 0.001,
    defaultText: "the profile's",
    help: "10^12 operations in f32 a second, a multiply-add being two",
    group: SPEED,
  },
  link: {
    flags: ["--link"],
    kind: "string",
    value: "RATE",
    default: "400Gbit",
    help:
      "what a rank receives from the others in a second, as 400Gbit or 50GB/s; or JSON with bandwidth, " +
      "latency in microseconds, and the same of exchanges of sums, experts or what is gathered",
    group: SPEED,
  },
  linkLatency: {
    flags: ["--link-latency"],
    kind: "number",
    value: "MICROSECONDS",
    min: 0,
    max: 1e6,
    default: 10,
    help: "what an exchange between ranks takes whatever it brings",
    group: SPEED,
  },
  inputTokens: {
    flags: ["--input-tokens"],
    kind: "integer",
    value: "N",
    min: 1,
    max: 2 ** 20,
    default: 1024,
    help: "tokens of a prompt",
    group: DEMAND,
  },
  outputTokens: {
    flags: ["--output-tokens"],
    kind: "integer",
    value: "N",
    min: 1,
    max: 2 ** 20,
    default: 1024,
    help: "tokens of an answer",
    group: DEMAND,
  },
  batches: {
    flags: ["--batches"],
    kind: "integers",
    value: "N,...",
    defaultText: "1,8,32,128",
    help: "requests that a replica decodes together; those that find no room are left out",
    group: DEMAND,
  },
  json: { ...INSPECT_OPTIONS.json, help: "print JSON, with bytes and seconds" },
  help: ENGINE_OPTIONS.help,
} as const satisfies OptionTable;
