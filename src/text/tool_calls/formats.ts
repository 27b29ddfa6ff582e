/**
 * The forms of tool calls that can be read, by the names of the option `--tool-call-parser`.
 *
 * @module
 */
import { LLAMA3 } from "./llama3.ts";
import { DEEPSEEK_V3, DEEPSEEK_V31, KIMI_K2 } from "./marked.ts";
import { MISTRAL } from "./mistral.ts";
import { PYTHONIC } from "./pythonic.ts";
import { QWEN25 } from "./qwen.ts";
import type { CallFormat } from "./tool_call_parser.ts";

/** All but that of gpt-oss, whose calls are messages (`harmony.ts`). */
export const CALL_FORMATS = {
  deepseekv3: DEEPSEEK_V3,
  deepseekv31: DEEPSEEK_V31,
  qwen25: QWEN25,
  hermes: QWEN25,
  llama3: LLAMA3,
  mistral: MISTRAL,
  kimi_k2: KIMI_K2,
  pythonic: PYTHONIC,
} as const satisfies Readonly<Record<string, CallFormat>>;

export type ToolCallParserName = keyof typeof CALL_FORMATS | "gpt-oss";

export const TOOL_CALL_PARSERS = [
  ...(Object.keys(CALL_FORMATS) as (keyof typeof CALL_FORMATS)[]),
  "gpt-oss",
] as const satisfies readonly ToolCallParserName[];
