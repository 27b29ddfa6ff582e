/**
 * A conversation -> the prompt text a model was trained on, by the model's own Jinja template.
 *
 * Templates disagree about what they are given: some print tool calls only when `content` is null
 * and others fail on null; some paste the arguments' JSON text and others print an object. So the
 * conversation is tried in the forms that are in use, the most faithful first.
 *
 * `tojson` prints as Python's `json.dumps(ensure_ascii=False)` does, except for numbers that a
 * JavaScript number cannot tell apart or spells differently (1.0 prints 1, 1e-07 prints 1e-7).
 *
 * @module
 */

import { Template } from "@huggingface/jinja";
import { CheckpointError, InvalidRequestError } from "../errors.ts";
import type { ChatMessage, ChatToolCall } from "../generation.ts";
import { completeTool } from "./chat_tools.ts";
import { isRecord, type RoleTokens } from "./tokenizer_config.ts";

export interface ChatTemplateInput {
  readonly messages: readonly ChatMessage[];
  /** Function tools in OpenAI's form. */
  readonly tools?: readonly unknown[] | undefined;
  /** Whether the prompt ends where the assistant's answer begins. */
  readonly addGenerationPrompt: boolean;
  /** Further variables; they may replace the tokens, not the other fields of this input. */
  readonly variables?: Readonly<Record<string, unknown>> | undefined;
}

/** How a template wants the arguments of a tool call. */
type ArgumentsForm = "text" | "object";

/** What the template is given as a call's arguments; `field` is the call's place, for an error. */
type ArgumentsOf = (call: ChatToolCall, field: string) => unknown;

const RESERVED = ["messages", "tools", "add_generation_prompt"];

export class ChatTemplate {
  readonly #template: Template;
  readonly #tokens: RoleTokens;
  #argumentsForm: ArgumentsForm | undefined;

  /**
   * @param tokens Become variables of the template: `bos_token` and so on.
   * @param file Where the source is from, for the error.
   * @throws {CheckpointError} when the source does not parse.
   */
  constructor(source: string, tokens: RoleTokens, file = "chat_template.jinja") {
    this.#tokens = tokens;
    try {
      this.#template = new Template(source);
    } catch (error) {
      const problem = `the chat template does not parse (${(error as Error).message})`;
      throw new CheckpointError(file, problem, undefined, { cause: error });
    }
  }

  /**
   * Writes the prompt.
   *
   * @throws {InvalidRequestError} with the template's own message, when it refuses the
   * conversation or cannot render it in any form.
   */
  render(input: ChatTemplateInput): string {
    const { messages, variables = {} } = input;
    if (messages.length === 0) {
      throw new InvalidRequestError("Cannot render the chat template: no messages", "messages");
    }
    for (const name of RESERVED) {
      if (!Object.hasOwn(variables, name)) continue;
      throw new InvalidRequestError(`Cannot set template variable "${name}": it has its own field`);
    }

    if (!messages.some(hasToolCalls)) return this.#renderWith(input, textOf);
    this.#argumentsForm ??= this.#findArgumentsForm(input);
    return this.#renderWith(input, this.#argumentsForm === "object" ? objectOf : textOf);
  }

  /** Tries the conversation's forms in order; `argumentsOf` gives what stands for a call's arguments. */
  #renderWith(input: ChatTemplateInput, argumentsOf: ArgumentsOf): string {
    const emptyContents = input.messages.some(hasToolCalls)
      ? ([null, ""] as const)
      : ([""] as const);
    let failure: unknown;
    for (const tools of toolForms(input.tools)) {
      for (const emptyContent of emptyContents) {
        const messages = input.messages.map((message, index) =>
          normalizeMessage(message, { index, argumentsOf, emptyContent }),
        );
        try {
          return this.#template.render({
            ...this.#tokens,
            ...input.variables,
            ...(tools === undefined ? {} : { tools }),
            messages,
            add_generation_prompt: input.addGenerationPrompt,
          });
        } catch (error) {
          failure = error;
        }
      }
    }
    const reason = failure instanceof Error ? failure.message : String(failure);
    throw new InvalidRequestError(`Cannot render the chat template: ${reason}`, "messages", {
      cause: failure,
    });
  }

  /**
   * Finds the form by rendering the conversation with marked arguments. Undefined when it cannot
   * be told from this conversation, because the calls are not printed or it does not render.
   */
  #findArgumentsForm(input: ChatTemplateInput): ArgumentsForm | undefined {
    // The answer is kept for later requests, so no message may be able to fake the mark.
    const given = JSON.stringify(input);
    let mark = "mark";
    for (let i = 0; given.includes(mark); i++) mark = `mark${i}`;
    const text = `{"${mark}": 1}`;
    const prints = (args: unknown, what: string): boolean => {
      try {
        return this.#renderWith(input, () => args).includes(what);
      } catch {
        return false; // not in this form, or not at all: then rendering it for real says why
      }
    };
    if (prints(text, text)) return "text";
    return prints({ [mark]: 1 }, mark) ? "object" : undefined;
  }
}

function hasToolCalls(message: ChatMessage): boolean {
  return (message.tool_calls?.length ?? 0) > 0;
}

/**
 * Tools as given, else with the fields filled in that some templates take for granted. Without
 * tools the variable is absent, else an empty list, for templates that loop over it unasked.
 */
function toolForms(tools: readonly unknown[] | undefined): (readonly unknown[] | undefined)[] {
  return tools === undefined || tools.length === 0
    ? [undefined, []]
    : [tools, tools.map(completeTool)];
}

interface MessageForm {
  readonly index: number;
  readonly argumentsOf: ArgumentsOf;
  /** Stands for the missing or empty content of a message with tool calls. */
  readonly emptyContent: null | "";
}

/** Templates ask whether a field is there, so those that are empty must not be. */
function normalizeMessage(message: ChatMessage, how: MessageForm): Record<string, unknown> {
  const normalized: Record<string, unknown> = {};
  for (const [key, value] of Object.entries(message)) {
    if (value !== undefined && value !== null) normalized[key] = value;
  }
  delete normalized.tool_calls;
  normalized.content = message.content ?? "";
  if (hasToolCalls(message)) {
    if (normalized.content === "") normalized.content = how.emptyContent;
    normalized.tool_calls = message.tool_calls?.map((call, position) => {
      const field = `messages[${how.index}].tool_calls[${position}].function.arguments`;
      const given = how.argumentsOf(call, field);
      return { ...call, function: { ...call.function, arguments: given } };
    });
  }
  return normalized;
}

function textOf(call: ChatToolCall): string {
  return call.function.arguments;
}

function objectOf(call: ChatToolCall, field: string): Readonly<Record<string, unknown>> {
  const text = call.function.arguments;
  let args: unknown;
  try {
    args = text.trim() === "" ? {} : JSON.parse(text);
  } catch (error) {
    throw new InvalidRequestError(`Cannot read ${field}: it is not JSON`, field, { cause: error });
  }
  if (!isRecord(args)) {
    throw new InvalidRequestError(`Cannot read ${field}: it is not a JSON object`, field);
  }
  return args;
}
