/**
 * Model families: what a checkpoint's files do not say about its text, as one table.
 *
 * A family is a way to write conversations, not an architecture: a distilled R1 has Qwen's
 * layers and DeepSeek's tags, and Hermes has Llama's layers and ChatML. So the chat template is
 * asked first, then config.json, then the vocabulary. What can be found out from the template
 * itself, such as whether arguments are text or objects, is not in the table (`message_forms.ts`).
 *
 * @module
 */

import { InvalidRequestError } from "../errors.ts";
import { FALLBACK_TEMPLATES } from "./fallback_templates.ts";
import type { RoleTokens } from "./tokenizer_config.ts";

/** How a model writes its tool calls; what can be parsed has the names of `--tool-call-parser`. */
export type ToolCallFormat =
  /** `<｜tool▁call▁begin｜>function<｜tool▁sep｜>NAME`, then the arguments in a fenced block. */
  | "deepseekv3"
  /** `<｜tool▁call▁begin｜>NAME<｜tool▁sep｜>ARGUMENTS`. */
  | "deepseekv31"
  /** `<|tool_call_begin|>functions.NAME:0<|tool_call_argument_begin|>ARGUMENTS`. */
  | "kimi_k2"
  /** `<tool_call>` around `{"name": .., "arguments": ..}`; Hermes began it. */
  | "qwen25"
  /** `<tool_call>` around `<function=NAME>` and `<parameter=..>`. */
  | "qwen3_coder"
  /** `{"name": .., "parameters": ..}`, after `<|python_tag|>` or alone. */
  | "llama3"
  /** `[TOOL_CALLS]` and a list of `{"name": .., "arguments": ..}`. */
  | "mistral"
  /** `[name(argument=value)]`. */
  | "pythonic"
  /** A message to `functions.NAME` on the commentary channel. */
  | "gpt-oss";

/** How a model marks its thinking; what can be parsed has the names of `--reasoning-parser`. */
export type ReasoningFormat =
  /** Thinks always: the answer begins within `<think>`. */
  | "deepseek-r1"
  /** `<think>` only when the request asks for it by `thinking`. */
  | "deepseek-v3"
  /** `<think>` unless the request turns it off by `enable_thinking`. */
  | "qwen3"
  /** Thinks always: the prompt ends with `<think>`. */
  | "qwen3-thinking"
  /** `◁think▷` or `<think>` as Kimi writes it. */
  | "kimi"
  /** Messages on the analysis channel. */
  | "gpt-oss";

export type FamilyName =
  | "deepseek-v2"
  | "deepseek-v3"
  | "deepseek-v3.1"
  | "deepseek-r1"
  | "kimi-k2"
  | "kimi-k2-thinking"
  | "qwen2.5"
  | "qwen3"
  | "qwen3-instruct"
  | "qwen3-thinking"
  | "qwen3-coder"
  | "hermes"
  | "chatml"
  | "llama-3"
  | "llama-3.1"
  | "llama-4"
  | "llama-2"
  | "mistral"
  | "gemma"
  | "gpt-oss"
  | "unknown";

export interface ModelFamily {
  readonly name: FamilyName;
  /** Absent where the model calls no tools in a format of its own. */
  readonly toolCalls?: ToolCallFormat;
  /** Absent where the model does not think in tags. */
  readonly reasoning?: ReasoningFormat;
  /** Field of a message in which the template looks for the thinking. Default `reasoning_content`. */
  readonly reasoningField?: "thinking";
  /** Whether the template takes a second system message in front for the user's. */
  readonly joinsInstructions?: boolean;
  /** Ids of calls that the template takes; others are rewritten. Default any. */
  readonly callIds?: CallIds;
  /** Tokens that end the model's turn, beside those that the checkpoint names. */
  readonly turnEnds?: readonly string[];
  /** Serves a checkpoint without a chat template. */
  readonly fallbackTemplate?: FallbackTemplate;
  /** Encoding of a checkpoint without tokenizer.json. */
  readonly fallbackEncoding?: FallbackEncoding;
}

export type CallIds =
  /** Nine letters and digits. */
  | "nine-characters"
  /** `functions.NAME:N`, counted over the conversation: the model reads the name in it. */
  | "function-and-number";

export interface FallbackTemplate {
  readonly source: string;
  /** Tokens that the template writes. A model whose vocabulary lacks one never learned them. */
  readonly tokens: readonly string[];
}

export interface FallbackEncoding {
  readonly name: "o200k_harmony";
  /** Stand for what tokenizer_config.json does not say. */
  readonly roles: RoleTokens;
}

/** What is at hand to tell a family by. */
export interface FamilyEvidence {
  /** Text of the chat template; of several, the one for tools. */
  readonly template?: string | undefined;
  /** Parsed config.json. */
  readonly config?: unknown;
  /** Whether the vocabulary has this token. */
  readonly hasToken?: ((content: string) => boolean) | undefined;
}

interface FamilyRow extends ModelFamily {
  /** Recognises the template. */
  readonly template?: (source: string) => boolean;
  /** `model_type` or class name in config.json, for a checkpoint without a known template. */
  readonly config?: readonly string[];
  /** Further condition on `config`: the vocabulary has this token. */
  readonly token?: string;
}

const has =
  (...pieces: readonly (string | RegExp)[]) =>
  (source: string): boolean =>
    pieces.every((piece) =>
      typeof piece === "string" ? source.includes(piece) : piece.test(source),
    );

/** A line break within a string of a template, written out or as an escape. */
const LINE_BREAK = String.raw`(?:\\n|\n)`;

/**
 * First match wins, so the more specific stands above: by the template in this order over the
 * whole table, and only then by config.json.
 */
const FAMILIES: readonly FamilyRow[] = [
  {
    name: "gpt-oss",
    template: has("<|channel|>", "<|start|>"),
    config: ["gpt_oss", "GptOssForCausalLM"],
    toolCalls: "gpt-oss",
    reasoning: "gpt-oss",
    reasoningField: "thinking",
    fallbackTemplate: FALLBACK_TEMPLATES.harmony,
    fallbackEncoding: {
      name: "o200k_harmony",
      roles: {
        bos_token: "<|startoftext|>",
        eos_token: "<|return|>",
        pad_token: "<|endoftext|>",
      },
    },
    turnEnds: ["<|return|>", "<|call|>"],
  },
  {
    name: "deepseek-v3.1",
    template: has("<｜Assistant｜></think>"),
    toolCalls: "deepseekv31",
    reasoning: "deepseek-v3",
  },
  {
    // Its first template ends the prompt with the tag; the later one leaves that to the model.
    name: "deepseek-r1",
    template: (source) =>
      source.includes("<｜Assistant｜><think>") ||
      (has("<｜Assistant｜>", "</think>")(source) && !/\bthinking\b/.test(source)),
    toolCalls: "deepseekv3",
    reasoning: "deepseek-r1",
  },
  {
    name: "deepseek-v3",
    template: has("<｜Assistant｜>"),
    config: ["deepseek_v3", "DeepseekV3ForCausalLM"],
    toolCalls: "deepseekv3",
    reasoning: "deepseek-v3",
    fallbackTemplate: FALLBACK_TEMPLATES.deepseekV3,
  },
  {
    name: "kimi-k2-thinking",
    template: has("<|im_middle|>", "reasoning_content"),
    toolCalls: "kimi_k2",
    reasoning: "kimi",
    callIds: "function-and-number",
  },
  {
    name: "kimi-k2",
    template: has("<|im_middle|>"),
    config: ["kimi_k2"],
    toolCalls: "kimi_k2",
    callIds: "function-and-number",
  },
  {
    name: "qwen3-coder",
    template: has("<|im_start|>", "<tool_call>", "<function="),
    toolCalls: "qwen3_coder",
  },
  {
    name: "qwen3",
    template: has("<|im_start|>", "<tool_call>", "enable_thinking"),
    toolCalls: "qwen25",
    reasoning: "qwen3",
  },
  {
    name: "qwen3-thinking",
    template: has(
      "<tool_call>",
      new RegExp(String.raw`<\|im_start\|>assistant${LINE_BREAK}<think>`),
    ),
    toolCalls: "qwen25",
    reasoning: "qwen3-thinking",
  },
  {
    name: "hermes",
    template: has("<|im_start|>", "<tool_call>", "function calling AI model"),
    toolCalls: "qwen25",
  },
  {
    name: "qwen2.5",
    template: has("<|im_start|>", "<tool_call>", "You are Qwen, created by"),
    config: ["qwen2", "Qwen2ForCausalLM"],
    token: "<tool_call>",
    toolCalls: "qwen25",
    turnEnds: ["<|im_end|>"],
    fallbackTemplate: FALLBACK_TEMPLATES.chatml,
  },
  {
    // The instruct models of 2507: no system text of their own, no thinking.
    name: "qwen3-instruct",
    template: has("<|im_start|>", "<tool_call>"),
    toolCalls: "qwen25",
  },
  {
    name: "chatml",
    template: has("<|im_start|>"),
    config: ["qwen2", "Qwen2ForCausalLM"],
    turnEnds: ["<|im_end|>"],
    fallbackTemplate: FALLBACK_TEMPLATES.chatml,
  },
  {
    name: "llama-4",
    template: has("<|header_start|>"),
    toolCalls: "pythonic",
  },
  {
    // From 3.1 on tools have a role of their own.
    name: "llama-3.1",
    template: has("<|start_header_id|>", "ipython"),
    config: ["llama", "LlamaForCausalLM"],
    token: "<|python_tag|>",
    toolCalls: "llama3",
    joinsInstructions: true,
    turnEnds: ["<|eot_id|>", "<|eom_id|>"],
    fallbackTemplate: FALLBACK_TEMPLATES.llama3,
  },
  {
    name: "llama-3",
    template: has("<|start_header_id|>"),
    config: ["llama", "LlamaForCausalLM"],
    token: "<|start_header_id|>",
    turnEnds: ["<|eot_id|>", "<|eom_id|>"],
    fallbackTemplate: FALLBACK_TEMPLATES.llama3,
  },
  {
    name: "mistral",
    template: has("[TOOL_CALLS]"),
    config: ["mistral", "MistralForCausalLM", "mixtral", "MixtralForCausalLM"],
    token: "[TOOL_CALLS]",
    toolCalls: "mistral",
    callIds: "nine-characters",
  },
  { name: "llama-2", template: has("[INST]") },
  { name: "gemma", template: has("<start_of_turn>") },
  {
    name: "deepseek-v2",
    // Its template writes the roles as plain words.
    template: has(/['"]User: ['"]/, /['"]Assistant:/),
    config: ["deepseek_v2", "DeepseekV2ForCausalLM"],
  },
  {
    name: "qwen3",
    config: ["qwen3", "Qwen3ForCausalLM", "qwen3_moe", "Qwen3MoeForCausalLM"],
    toolCalls: "qwen25",
    reasoning: "qwen3",
    turnEnds: ["<|im_end|>"],
    fallbackTemplate: FALLBACK_TEMPLATES.chatml,
  },
];

const UNKNOWN: ModelFamily = { name: "unknown" };

/** Finds the family; "unknown", which makes no choices, where nothing is recognised. */
export function detectFamily(evidence: FamilyEvidence): ModelFamily {
  const { template, config, hasToken = () => false } = evidence;
  if (template !== undefined) {
    // A template of an unknown kind says more than config.json: the model was trained on it.
    return FAMILIES.find((row) => row.template?.(template)) ?? UNKNOWN;
  }
  // The type says more than the class: Kimi K2 has the class of DeepSeek-V3.
  for (const name of configNames(config)) {
    const found = FAMILIES.find(
      (row) =>
        row.config?.some((known) => known === name) &&
        (row.token === undefined || hasToken(row.token)),
    );
    if (found !== undefined) return found;
  }
  return UNKNOWN;
}

/** @throws {InvalidRequestError} listing the known names. */
export function familyNamed(name: string): ModelFamily {
  const rows = [...FAMILIES, UNKNOWN].filter((row) => row.name === name);
  // A family has several rows where it is recognised in several ways; all make the same choices.
  if (rows.length > 0) {
    return rows.reduce((all, row) => Object.assign(all, row), {}) as ModelFamily;
  }
  const known = [...new Set([...FAMILIES, UNKNOWN].map((row) => row.name))].join(", ");
  throw new InvalidRequestError(
    `Cannot use chatFamily ${name}: it must be one of ${known}`,
    "chatFamily",
  );
}

function configNames(config: unknown): unknown[] {
  if (typeof config !== "object" || config === null) return [];
  const { model_type: type, architectures } = config as Readonly<Record<string, unknown>>;
  return [type, ...(Array.isArray(architectures) ? (architectures as unknown[]) : [])];
}
