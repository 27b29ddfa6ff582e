/**
 * The forms of reasoning that can be read, by the names of the option `--reasoning-parser`.
 *
 * @module
 */

/** Whether the prompt opens the thinking, for a request that does or does not ask for thinking. */
type IsOpen = (wantsThinking: boolean) => boolean;

/** All but that of gpt-oss, whose reasoning is a channel (`harmony.ts`). */
export const THINK_FORMATS = {
  "deepseek-r1": () => true,
  "deepseek-v3": (wantsThinking) => wantsThinking,
  qwen3: (wantsThinking) => wantsThinking,
  "qwen3-thinking": () => true,
} as const satisfies Readonly<Record<string, IsOpen>>;

export type ReasoningParserName = keyof typeof THINK_FORMATS | "gpt-oss";

export const REASONING_PARSERS = [
  ...(Object.keys(THINK_FORMATS) as (keyof typeof THINK_FORMATS)[]),
  "gpt-oss",
] as const satisfies readonly ReasoningParserName[];
