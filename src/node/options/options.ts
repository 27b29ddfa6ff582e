/**
 * Every option of the commands, one row each: the parser, the help and the table of docs/options.md
 * are made from these rows.
 *
 * @module
 */

import { QUANTIZATION_VALUES } from "../../checkpoint/quantization_option.ts";
import { JSON_JUMPS, JSON_ORDERS, JSON_UNKNOWN } from "../../constraint.ts";
import { GRAMMAR_BACKENDS } from "../../grammar/constraints/backend_names.ts";
import { DIALECTS } from "../../grammar/schema/dialect.ts";
import { NUMERIC_CLASS_CHOICES } from "../../models/numeric_class.ts";
import { DISAGGREGATION_OPTIONS } from "../disaggregation/disaggregation_options.ts";
import { IMAGE_OPTIONS } from "../media/image_options.ts";
import { MEDIA_OPTIONS } from "../media/media_options.ts";
import { ATTENTION_GROUP_OPTIONS } from "../ranks/attention_group_options.ts";
import { DEVICE_OPTIONS } from "../ranks/device_options.ts";
import {
  EXPERT_METRIC_OPTIONS,
  EXPERT_OPTIONS,
  EXPERT_RECORD_OPTIONS,
} from "../ranks/expert_options.ts";
import { GROUP_OPTIONS } from "../ranks/group_options.ts";
import { OVERLAP_OPTIONS } from "../ranks/overlap_options.ts";
import { REPLICA_OPTIONS } from "../replicas/replica_options.ts";
import { ACCESS_OPTIONS } from "./access_options.ts";
import { ATTENTION_OPTIONS } from "./attention_options.ts";
import { MEMORY, MEMORY_OPTIONS } from "./memory_options.ts";
import type { OptionRow, OptionTable, OptionValues } from "./option_parser.ts";
import { PARSER_OPTIONS } from "./parser_options.ts";
import { RESERVED_GROUP_OPTIONS } from "./reserved_options.ts";
import { SERVER_OPTIONS } from "./server_options.ts";
import { SPECULATION_OPTIONS } from "./speculation_options.ts";

const MODEL = "Model";
const SAMPLING = "Generation";
const OTHER = "Other";

const REVISION = {
  flags: ["--revision"],
  kind: "string",
  value: "REVISION",
  defaultText: "main, or what stands behind @ in the id",
  help: "branch, tag or commit of a model from a hub",
  group: MODEL,
} as const satisfies OptionRow;

const ENDPOINT = {
  flags: ["--endpoint"],
  kind: "string",
  value: "URL",
  defaultText: "the variable HF_ENDPOINT, else https://huggingface.co",
  help: "address of the model hub",
  group: MODEL,
} as const satisfies OptionRow;

const TRUST_REMOTE_CODE = {
  flags: ["--trust-remote-code"],
  kind: "flag",
  default: false,
  help:
    "accepted and never needed: models are built in, no remote code is ever run, and a model that " +
    "needs it is refused",
  group: MODEL,
} as const satisfies OptionRow;

const HELP = {
  flags: ["--help"],
  kind: "flag",
  default: false,
  help: "print this help",
  group: OTHER,
} as const satisfies OptionRow;

/** What an engine is started with, whichever command starts it. */
export const ENGINE_OPTIONS = {
  modelPath: {
    flags: ["--model-path", "--model"],
    kind: "string",
    value: "MODEL",
    defaultText: "the small model that comes with the package",
    help: "folder of a checkpoint in the Hugging Face layout, or the id of a model that was downloaded",
    group: MODEL,
  },
  revision: REVISION,
  chatTemplate: {
    flags: ["--chat-template"],
    kind: "string",
    value: "FILE",
    defaultText: "the checkpoint's",
    help: "file with a Jinja chat template",
    group: MODEL,
  },
  chatFamily: {
    flags: ["--chat-family"],
    kind: "string",
    value: "NAME",
    defaultText: "what its chat template and config.json tell",
    help: "whose way to write conversations the model follows",
    group: MODEL,
  },
  contextLength: {
    flags: ["--context-length"],
    kind: "integer",
    min: 2,
    defaultText: "the model's",
    help: "tokens a sequence may have, prompt and completion together",
    group: MODEL,
  },
  allowAutoTruncate: {
    flags: ["--allow-auto-truncate"],
    kind: "flag",
    default: false,
    help:
      "keep the beginnings of prompts that are longer than the context, and as many completion " +
      "tokens as are left, instead of refusing both",
    group: MODEL,
  },
  quantization: {
    flags: ["--quantization"],
    kind: "string",
    choices: QUANTIZATION_VALUES,
    value: "METHOD",
    defaultText: "the checkpoint's",
    help:
      "int4, int4-g32, int4-g64, int4-g128, int8 or fp8: what plain weights become while they are " +
      "loaded; any other must be what the checkpoint is. Not to be set for weights that are already FP8",
    group: MODEL,
  },
  numericClass: {
    flags: ["--numeric-class"],
    kind: "string",
    choices: NUMERIC_CLASS_CHOICES,
    value: "CLASS",
    default: "auto",
    help:
      "the arithmetic of linears: fma128 in f32; int8 in whole numbers where weights and activations " +
      "are int8, else as fma128; f16 with products in f16; mma128 with prompts on subgroup matrices; auto " +
      "the faster of the first two, and prompts on matrices where the adapter has some that are found " +
      "right. Answers differ in their last bits. f16 and mma128 need an adapter that has them",
    group: MODEL,
  },
  quantizationReport: {
    flags: ["--quantization-report"],
    kind: "flag",
    default: false,
    help: "print the error of every matrix that --quantization changes, not only the largest",
    group: MODEL,
  },
  disableActivationQuantization: {
    flags: ["--disable-activation-quantization"],
    kind: "flag",
    default: false,
    help: "keep activations in full precision where an FP8 or int8 checkpoint asks to round them",
    group: MODEL,
  },
  deterministicInference: {
    flags: ["--enable-deterministic-inference"],
    kind: "flag",
    default: false,
    help:
      "run prompts in the form of attention and the numeric class that answers have, so that reused " +
      "answers change no bit: slower prompts for DeepSeek models, and where prompts run on subgroup matrices",
    group: MODEL,
  },
  ...ATTENTION_OPTIONS,
  grammarBackend: {
    flags: ["--grammar-backend"],
    kind: "string",
    choices: GRAMMAR_BACKENDS,
    default: "outlines",
    help:
      "constraints that requests may bring: outlines takes json_schema, regex and choices, xgrammar json_schema, ebnf, structural_tag " +
      "and choices, auto all of them, none refuses them; one engine enforces them all",
    group: MODEL,
  },
  jsonWhitespace: {
    flags: ["--json-whitespace"],
    kind: "integer",
    min: 0,
    max: 1000,
    defaultText: "what models write",
    help:
      "the most characters of any white space between two tokens of JSON that a schema asks for; 0 is " +
      "compact. Models write none, one space, or a line break and indentation where a new line makes sense",
    group: MODEL,
  },
  jsonDialect: {
    flags: ["--json-dialect"],
    kind: "string",
    choices: DIALECTS,
    default: "2020-12",
    help: "dialect of JSON schemas that do not say theirs in $schema",
    group: MODEL,
  },
  jsonUnknown: {
    flags: ["--json-unknown"],
    kind: "string",
    choices: JSON_UNKNOWN,
    default: "ignore",
    help:
      "keywords that a JSON schema's dialect does not have, and unknown formats: ignore takes them " +
      "as annotations and warns in the answer, refuse refuses the schema; requests may choose by json_unknown",
    group: MODEL,
  },
  jsonOrder: {
    flags: ["--json-order"],
    kind: "string",
    choices: JSON_ORDERS,
    default: "any",
    help:
      "order of the members that a JSON schema names: any, or schema for that of properties, others " +
      "behind them; requests may choose by json_order",
    group: MODEL,
  },
  jsonJump: {
    flags: ["--json-jump"],
    kind: "string",
    choices: JSON_JUMPS,
    default: "forced",
    help:
      "what constrained answers take without a step: forced tokens, the only ones that may come, which " +
      "changes no answer; retokenize all text that must follow, in the tokenizer's tokens; off nothing",
    group: MODEL,
  },
  ...MEMORY_OPTIONS,
  ...IMAGE_OPTIONS,
  ...SPECULATION_OPTIONS,
  ...DEVICE_OPTIONS,
  ...OVERLAP_OPTIONS,
  ...EXPERT_OPTIONS,
  ...EXPERT_METRIC_OPTIONS,
  randomSeed: {
    flags: ["--random-seed"],
    kind: "integer",
    min: 0,
    max: 2 ** 32 - 1,
    defaultText: "a different one at every start",
    help: "where the seeds of requests without a seed come from",
    group: OTHER,
  },
  help: HELP,
} as const satisfies OptionTable;

export const LAUNCH_OPTIONS = {
  ...SERVER_OPTIONS,
  ...ACCESS_OPTIONS,
  ...MEDIA_OPTIONS,
  trustRemoteCode: TRUST_REMOTE_CODE,
  ...ENGINE_OPTIONS,
  ...PARSER_OPTIONS,
  ...GROUP_OPTIONS,
  ...REPLICA_OPTIONS,
  ...ATTENTION_GROUP_OPTIONS,
  ...DISAGGREGATION_OPTIONS,
  ...EXPERT_RECORD_OPTIONS,
} as const satisfies OptionTable;

/** Of `wisp serve`: those of `launch_server`, and what its download needs. */
export const SERVE_OPTIONS = {
  ...LAUNCH_OPTIONS,
  endpoint: ENDPOINT,
  offline: {
    flags: ["--offline"],
    kind: "flag",
    default: false,
    help: "download nothing, like HF_HUB_OFFLINE=1",
    group: MODEL,
  },
} as const satisfies OptionTable;

export const DOWNLOAD_OPTIONS = {
  revision: REVISION,
  endpoint: ENDPOINT,
  help: HELP,
} as const satisfies OptionTable;

export const CHECK_SCHEMA_OPTIONS = {
  jsonWhitespace: ENGINE_OPTIONS.jsonWhitespace,
  jsonDialect: ENGINE_OPTIONS.jsonDialect,
  jsonUnknown: ENGINE_OPTIONS.jsonUnknown,
  jsonOrder: ENGINE_OPTIONS.jsonOrder,
  json: {
    flags: ["--json"],
    kind: "flag",
    default: false,
    help: "print JSON",
    group: OTHER,
  },
  help: HELP,
} as const satisfies OptionTable;

export const INSPECT_OPTIONS = {
  revision: REVISION,
  deviceMemory: {
    ...ENGINE_OPTIONS.deviceMemory,
    defaultText: "8G, 24G, 80G and 141G",
    help: "memory of one device, as 80G",
  },
  memFractionStatic: ENGINE_OPTIONS.memFractionStatic,
  contextLength: ENGINE_OPTIONS.contextLength,
  concurrency: {
    flags: ["--concurrency"],
    kind: "integer",
    min: 1,
    default: 1,
    help: "sequences of that length to be cached at once",
    group: MEMORY,
  },
  speculativeDraftModelPath: SPECULATION_OPTIONS.speculativeDraftModelPath,
  speculativeDraftModelRevision: SPECULATION_OPTIONS.speculativeDraftModelRevision,
  tpSize: {
    ...ENGINE_OPTIONS.tpSize,
    help: "ranks that split every layer: tells what each of so many would hold",
  },
  dpSize: { ...REPLICA_OPTIONS.dpSize, help: "groups of them, with --enable-dp-attention" },
  ...ATTENTION_GROUP_OPTIONS,
  moeDenseTpSize: EXPERT_OPTIONS.moeDenseTpSize,
  json: {
    flags: ["--json"],
    kind: "flag",
    default: false,
    help: "print JSON, with sizes in bytes",
    group: OTHER,
  },
  help: HELP,
} as const satisfies OptionTable;

/** Of `wisp compile_kernels`: what decides how a model is compiled, and whether it fits. */
export const COMPILE_OPTIONS = {
  modelPath: ENGINE_OPTIONS.modelPath,
  revision: REVISION,
  trustRemoteCode: TRUST_REMOTE_CODE,
  contextLength: ENGINE_OPTIONS.contextLength,
  quantization: ENGINE_OPTIONS.quantization,
  numericClass: ENGINE_OPTIONS.numericClass,
  disableActivationQuantization: ENGINE_OPTIONS.disableActivationQuantization,
  deterministicInference: ENGINE_OPTIONS.deterministicInference,
  ...ATTENTION_OPTIONS,
  ...SPECULATION_OPTIONS,
  memFractionStatic: ENGINE_OPTIONS.memFractionStatic,
  deviceMemory: ENGINE_OPTIONS.deviceMemory,
  kvCacheDtype: ENGINE_OPTIONS.kvCacheDtype,
  maxTotalTokens: ENGINE_OPTIONS.maxTotalTokens,
  maxRunningRequests: ENGINE_OPTIONS.maxRunningRequests,
  pageSize: ENGINE_OPTIONS.pageSize,
  adapter: ENGINE_OPTIONS.adapter,
  enableTorchCompile: ENGINE_OPTIONS.enableTorchCompile,
  help: HELP,
  ...RESERVED_GROUP_OPTIONS,
  ...OVERLAP_OPTIONS,
  ...EXPERT_OPTIONS,
  tpSize: {
    ...ENGINE_OPTIONS.tpSize,
    help: "ranks that split every layer: compiles what each of them runs",
  },
} as const satisfies OptionTable;

export const GENERATE_OPTIONS = {
  maxNewTokens: {
    flags: ["--max-new-tokens"],
    kind: "integer",
    min: 1,
    defaultText: "what the context holds",
    help: "completion tokens at most",
    group: SAMPLING,
  },
  temperature: {
    flags: ["--temperature"],
    kind: "number",
    value: "T",
    min: 0,
    defaultText: "the model's",
    help: "randomness of the choice of tokens; 0 always takes the likeliest",
    group: SAMPLING,
  },
  jsonSchema: {
    flags: ["--json-schema"],
    kind: "string",
    value: "FILE",
    defaultText: "any text",
    help: "file with the JSON schema that the answer must fit; an answer that is cut off is a failure",
    group: SAMPLING,
  },
  raw: {
    flags: ["--raw"],
    kind: "flag",
    default: false,
    help: "continue the prompt as it is, without the chat template",
    group: SAMPLING,
  },
  ...ENGINE_OPTIONS,
} as const satisfies OptionTable;

export type EngineLaunchOptions = OptionValues<typeof ENGINE_OPTIONS>;
export type LaunchOptions = OptionValues<typeof LAUNCH_OPTIONS>;
export type CompileOptions = OptionValues<typeof COMPILE_OPTIONS>;
export type GenerateOptions = OptionValues<typeof GENERATE_OPTIONS>;
