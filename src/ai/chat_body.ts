/**
 * What the `ai` SDK asks, as a body of `POST /v1/chat/completions`.
 *
 * @module
 */
import type { LanguageModelV3CallOptions, SharedV3Warning } from "@ai-sdk/provider";
import { chatMessages } from "./chat_messages.ts";

/** Its fields are checked where they are read, as those of any client. */
export interface ChatBody {
  readonly messages: readonly object[];
  readonly [field: string]: unknown;
}

export interface AskedChat {
  readonly body: ChatBody;
  /** What the model cannot do, for the SDK to show. */
  readonly warnings: SharedV3Warning[];
}

/** Fields of `providerOptions.wisp` are put into the body as they are. */
export function chatBody(options: LanguageModelV3CallOptions, model: string): AskedChat {
  const { prompt, providerOptions, stopSequences } = options;
  const warnings: SharedV3Warning[] = [];
  const fields = {
    model,
    messages: chatMessages(prompt),
    max_tokens: options.maxOutputTokens,
    temperature: options.temperature,
    top_p: options.topP,
    top_k: options.topK,
    presence_penalty: options.presencePenalty,
    frequency_penalty: options.frequencyPenalty,
    seed: options.seed,
    stop: stopSequences?.length ? stopSequences : undefined,
    response_format: responseFormat(options.responseFormat),
    ...toolFields(options, warnings),
    ...providerOptions?.wisp,
  };
  const given = Object.entries(fields).filter(([, value]) => value !== undefined);
  return { body: Object.fromEntries(given) as unknown as ChatBody, warnings };
}

function responseFormat(format: LanguageModelV3CallOptions["responseFormat"]): object | undefined {
  if (format?.type !== "json") return undefined;
  const { schema, name = "answer", description } = format;
  if (schema === undefined) return { type: "json_object" };
  const described = description === undefined ? {} : { description };
  return { type: "json_schema", json_schema: { name, schema, strict: true, ...described } };
}

function toolFields(
  { tools = [], toolChoice }: LanguageModelV3CallOptions,
  warnings: SharedV3Warning[],
): object {
  const functions = tools.flatMap((tool) => {
    if (tool.type === "function") {
      const { name, description, inputSchema: parameters, strict } = tool;
      return [{ type: "function", function: { name, description, parameters, strict } }];
    }
    warnings.push({ type: "unsupported", feature: `the provider's tool ${tool.id}` });
    return [];
  });
  if (functions.length === 0) return {};
  const named = toolChoice?.type === "tool" ? toolChoice.toolName : undefined;
  const choice =
    named === undefined ? toolChoice?.type : { type: "function", function: { name: named } };
  return { tools: functions, tool_choice: choice };
}
