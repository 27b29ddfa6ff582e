/**
 * Which chat template a model is served with.
 *
 * In falling order: the one the user gives, `chat_template.jinja` beside the weights, and
 * `chat_template` in tokenizer_config.json, which may be several by name: "tool_use" serves
 * requests with tools, "default" all others. Last comes the fallback of the model's family.
 *
 * @module
 */

import { InvalidRequestError } from "../errors.ts";
import { ChatTemplate, type ChatTemplateInput } from "./chat_template.ts";
import type { ModelFamily } from "./families.ts";
import { type NamedTemplate, readTokenizerConfig } from "./tokenizer_config.ts";

const DEFAULT = "default";
const TOOL_USE = "tool_use";

/** Anything that turns a conversation into a prompt. */
export interface ChatRenderer {
  /** Names that its templates use as variables. */
  readonly variables: ReadonlySet<string>;
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
  /** Text of a template of ours, for a checkpoint without any. */
  readonly fallback?: string | undefined;
  /** Default: the one each template is recognised as. */
  readonly family?: ModelFamily | undefined;
  /** Clock for templates that print the date. Default the system's. */
  readonly now?: (() => Date) | undefined;
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
  const { roles } = readTokenizerConfig(sources.tokenizerConfig);
  const { file, templates } = chooseTemplates(sources);
  const named = new Map(
    templates.map(({ name, template }) => [
      name,
      new ChatTemplate(template, roles, { file, now: sources.now, family: sources.family }),
    ]),
  );
  return {
    variables: new Set([...named.values()].flatMap(({ variables }) => [...variables])),
    render(input) {
      const hasTools = (input.tools?.length ?? 0) > 0;
      const template = (hasTools ? named.get(TOOL_USE) : undefined) ?? named.get(DEFAULT);
      if (template !== undefined) return template.render(input);
      const state =
        named.size === 0
          ? "the model has no chat template"
          : `the model has no default chat template, only ${[...named.keys()].join(", ")}`;
      throw new InvalidRequestError(`Cannot render messages: ${state}`, "messages");
    },
  };
}

/** The source that tells most about the model: the one for tools, where there are several. */
export function chatTemplateSource(sources: ChatTemplateSources): string | undefined {
  const { templates } = chooseTemplates(sources);
  const [first] = templates;
  const tools = templates.find(({ name }) => name === TOOL_USE);
  return (tools ?? templates.find(({ name }) => name === DEFAULT) ?? first)?.template;
}

interface ChosenTemplates {
  /** Where they are from, for errors. */
  readonly file: string;
  readonly templates: readonly NamedTemplate[];
}

function chooseTemplates(sources: ChatTemplateSources): ChosenTemplates {
  const { override, jinjaFile, fallback } = sources;
  const one = (template: string) => [{ name: DEFAULT, template }];
  if (override !== undefined) return { file: "--chat-template", templates: one(override) };
  if (jinjaFile !== undefined) return { file: "chat_template.jinja", templates: one(jinjaFile) };

  const { chatTemplate } = readTokenizerConfig(sources.tokenizerConfig);
  const file = "tokenizer_config.json";
  if (typeof chatTemplate === "string") return { file, templates: one(chatTemplate) };
  if (chatTemplate !== undefined) return { file, templates: chatTemplate };
  return { file: "the built-in template", templates: fallback === undefined ? [] : one(fallback) };
}
