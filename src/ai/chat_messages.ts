/**
 * The `ai` SDK's conversations as OpenAI writes them.
 *
 * @module
 */
import type {
  LanguageModelV3FilePart,
  LanguageModelV3Message,
  LanguageModelV3Prompt,
  LanguageModelV3ToolResultOutput,
  LanguageModelV3ToolResultPart,
} from "@ai-sdk/provider";
import { UnsupportedError } from "../errors.ts";
import { toBase64 } from "../images/to_base64.ts";

type Assistant = Extract<LanguageModelV3Message, { role: "assistant" }>;

/** @throws {UnsupportedError} for parts that no model here can be shown. */
export function chatMessages(prompt: LanguageModelV3Prompt): readonly object[] {
  return prompt.flatMap((message): readonly object[] => {
    switch (message.role) {
      case "system":
        return [{ role: "system", content: message.content }];
      case "user":
        return [{ role: "user", content: message.content.map(userPart) }];
      case "assistant":
        return [assistantMessage(message)];
      case "tool":
        return message.content.map((part) => {
          if (part.type !== "tool-result") throw unsupported(part.type);
          return toolMessage(part);
        });
      default:
        return message satisfies never;
    }
  });
}

const unsupported = (type: string) =>
  new UnsupportedError(`a part "${type}" of a message`, "models here read text and images");

type UserPart = Extract<LanguageModelV3Message, { role: "user" }>["content"][number];

function userPart(part: UserPart): object {
  if (part.type === "text") return { type: "text", text: part.text };
  if (!part.mediaType.startsWith("image/")) throw unsupported(part.mediaType);
  return { type: "image_url", image_url: { url: addressOf(part) } };
}

function addressOf({ data, mediaType }: LanguageModelV3FilePart): string {
  if (data instanceof URL) return data.href;
  // The SDK may say "image/*" where it does not know better: pictures tell what they are themselves.
  const type = mediaType === "image/*" ? "image/png" : mediaType;
  return `data:${type};base64,${typeof data === "string" ? data : toBase64(data)}`;
}

function assistantMessage({ content }: Assistant): object {
  const said = { text: "", reasoning: "" };
  const calls: object[] = [];
  for (const part of content) {
    if (part.type === "text" || part.type === "reasoning") said[part.type] += part.text;
    else if (part.type === "tool-call") {
      const { toolCallId: id, toolName: name, input } = part;
      const written = typeof input === "string" ? input : JSON.stringify(input);
      calls.push({ id, type: "function", function: { name, arguments: written } });
    } else throw unsupported(part.type);
  }
  return {
    role: "assistant",
    content: said.text === "" ? null : said.text,
    ...(said.reasoning !== "" && { reasoning_content: said.reasoning }),
    ...(calls.length > 0 && { tool_calls: calls }),
  };
}

function toolMessage({ toolCallId, output }: LanguageModelV3ToolResultPart): object {
  return { role: "tool", tool_call_id: toolCallId, content: resultText(output) };
}

function resultText(output: LanguageModelV3ToolResultOutput): string {
  switch (output.type) {
    case "text":
    case "error-text":
      return output.value;
    case "json":
    case "error-json":
      return JSON.stringify(output.value);
    case "execution-denied":
      return output.reason ?? "The tool was not allowed to run.";
    case "content":
      return output.value
        .map((part) => {
          if (part.type === "text") return part.text;
          throw unsupported(part.type);
        })
        .join("\n");
    default:
      return output satisfies never;
  }
}
