/**
 * Which chat template a model is served with.
 *
 * In falling order: the one the user gives, `chat_template.jinja` beside the weights, and
 * `chat_template` in tokenizer_config.json, which may be several by name: "tool_use" serves
 * requests with tools, "default" all others.
 *
 * @module
 */

import { InvalidRequestError } from "../errors.ts";
import { ChatTemplate, type ChatTemplateInput } from "./chat_template.ts";
import { readTokenizerConfig } from "./tokenizer_config.ts";

/** Anything that turns a conversation into a prompt. */
export interface ChatRenderer {
  /** @throws {InvalidRequestError} when the conversation cannot be rendered. */
  render(input: ChatTemplateInput): string;
}

export interface ChatTemplateSources {
  /** Parsed tokenizer_config.json; it also names the tokens that templates write. */
  readonly tokenizerConfig?: unknown;
  /** Text of chat_template.jinja. */
  readonly jinjaFile?: string | undefined;
  /** Text of the file that the user gave instead. */
  readonly override?: string | undefined;
}

/**
 * Chooses and parses a model's chat templates.
 *
 * A model without any gets a renderer that refuses every conversation, because it may still
 * complete raw text.
 *
 * @throws {CheckpointError} when a template does not parse or tokenizer_config.json is malformed.
 */
export function createChatRenderer(sources: ChatTemplateSources): ChatRenderer {
  const { roles, chatTemplate } = readTokenizerConfig(sources.tokenizerConfig);
  if (sources.override !== undefined) {
    return new ChatTemplate(sources.override, roles, "--chat-template");
  }
  if (sources.jinjaFile !== undefined) return new ChatTemplate(sources.jinjaFile, roles);

  const file = "tokenizer_config.json";
  if (typeof chatTemplate === "string") return new ChatTemplate(chatTemplate, roles, file);
  const named = new Map(
    chatTemplate?.map(({ name, template }) => [name, new ChatTemplate(template, roles, file)]),
  );
  return {
    render(input) {
      const hasTools = (input.tools?.length ?? 0) > 0;
      const template = (hasTools ? named.get("tool_use") : undefined) ?? named.get("default");
      if (template !== undefined) return template.render(input);
      const state =
        named.size === 0
          ? "the model has no chat template"
          : `the model has no default chat template, only ${[...named.keys()].join(", ")}`;
      throw new InvalidRequestError(`Cannot render messages: ${state}`, "messages");
    },
  };
}
