/**
 * A conversation -> the prompt text a model was trained on, by the model's own Jinja template.
 *
 * Templates disagree about the form of what they are given (`message_forms.ts`). Which form one
 * wants is found by rendering with marked texts and looking for the marks: a form under which the
 * template leaves out a call or an instruction is not taken where another shows it.
 *
 * `tojson` prints as Python's `json.dumps(ensure_ascii=False)` does, except for numbers that a
 * JavaScript number cannot tell apart or spells differently (1.0 prints 1, 1e-07 prints 1e-7).
 *
 * @module
 */

import { CheckpointError, InvalidRequestError } from "../errors.ts";
import { type ChatMessage, type ChatToolCall, newRequestId } from "../generation.ts";
import { completeTool } from "./chat_tools.ts";
import { detectFamily, type ModelFamily } from "./families.ts";
import { JinjaTemplate, TemplateLimit, TemplateRefusal } from "./jinja.ts";
import { checkTemplateSource } from "./limits/template_limits.ts";
import {
  type CallForm,
  callForms,
  checkArguments,
  formMessages,
  hasToolCalls,
  instructionForms,
  isInstruction,
  joinLeadingInstructions,
  PLAIN_FORM,
  rewriteCallIds,
  withPlainTexts,
} from "./message_forms.ts";
import type { RoleTokens } from "./tokenizer_config.ts";

export interface ChatTemplateInput {
  readonly messages: readonly ChatMessage[];
  /** Function tools in OpenAI's form. */
  readonly tools?: readonly unknown[] | undefined;
  /** Whether the prompt ends where the assistant's answer begins. */
  readonly addGenerationPrompt: boolean;
  /** Further variables; they may replace the tokens, not the other fields of this input. */
  readonly variables?: Readonly<Record<string, unknown>> | undefined;
}

export interface ChatTemplateOptions {
  /** Where the source is from, for the error. Default chat_template.jinja. */
  readonly file?: string;
  /** Whose way to write conversations it follows. Default: the one its source is recognised as. */
  readonly family?: ModelFamily | undefined;
  /** Clock of `strftime_now`. Default the system's. */
  readonly now?: (() => Date) | undefined;
  /** Statements that one rendering may take. Default 3,000,000. */
  readonly maxStatements?: number | undefined;
}

const RESERVED = ["messages", "tools", "add_generation_prompt"];

export class ChatTemplate {
  readonly #template: JinjaTemplate;
  readonly #tokens: RoleTokens;
  readonly #family: ModelFamily;
  readonly #now: () => Date;
  /** What was found out, by the kind of conversation it was found with. */
  readonly #callForms = new Map<string, CallForm>();

  /**
   * @param tokens Become variables of the template: `bos_token` and so on.
   * @throws {CheckpointError} when the source does not parse, or would take long to.
   */
  constructor(source: string, tokens: RoleTokens, options: ChatTemplateOptions = {}) {
    const { file = "chat_template.jinja", now = () => new Date() } = options;
    this.#tokens = tokens;
    this.#family = options.family ?? detectFamily({ template: source });
    this.#now = now;
    checkTemplateSource(file, source);
    try {
      this.#template = new JinjaTemplate(source, options.maxStatements);
    } catch (error) {
      // The parser calls itself for each level.
      const reason = error instanceof RangeError ? "it nests too deep" : (error as Error).message;
      const problem = `the chat template does not parse (${reason})`;
      throw new CheckpointError(file, problem, undefined, { cause: error });
    }
  }

  /** Names that the template uses as variables. */
  get variables(): ReadonlySet<string> {
    return this.#template.variables;
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
      const problem = `Cannot set template variable "${name}": it has its own field`;
      throw new InvalidRequestError(problem, "templateVariables");
    }

    const { callIds, joinsInstructions } = this.#family;
    const read = withPlainTexts(messages);
    let prepared = joinsInstructions ? joinLeadingInstructions(read) : read;
    if (callIds !== undefined) prepared = rewriteCallIds(prepared, callIds);
    const given = { ...input, messages: prepared };
    const form = this.#callForm(given);
    if (form.args === "object") checkArguments(messages);
    const placed = this.#placeInstructions(given, form);
    return this.#renderWith({ ...given, messages: placed }, form);
  }

  #renderWith(input: ChatTemplateInput, form: CallForm): string {
    const messages = formMessages(input.messages, form, this.#family.reasoningField);
    const failures: unknown[] = [];
    for (const tools of toolForms(input.tools)) {
      try {
        return this.#template.render(
          {
            ...this.#tokens,
            ...input.variables,
            ...(tools === undefined ? {} : { tools }),
            messages,
            add_generation_prompt: input.addGenerationPrompt,
          },
          this.#now(),
        );
      } catch (error) {
        failures.push(error);
        if (error instanceof TemplateLimit) break;
      }
    }
    const cause = failures.find((error) => error instanceof TemplateRefusal) ?? failures.at(-1);
    const text = cause instanceof Error ? cause.message : String(cause);
    const reason = cause instanceof RangeError ? `it goes too deep (${text})` : text;
    throw new InvalidRequestError(`Cannot render the chat template: ${reason}`, "messages", {
      cause,
    });
  }

  /** The form under which the template prints most of the calls' arguments. */
  #callForm(input: ChatTemplateInput): CallForm {
    const { messages } = input;
    const calling = messages.filter(hasToolCalls);
    if (calling.length === 0) return PLAIN_FORM;
    const forms = callForms(messages);
    // These decide which forms there are and what a template may refuse.
    const thinks = calling.some(({ reasoning_content: text }) => text);
    const kind = `${forms.length} ${thinks} ${toolForms(input.tools).length}`;
    const known = this.#callForms.get(kind);
    if (known !== undefined) return known;

    // The answer is kept for later requests, so no message may be able to fake a mark.
    const mark = randomMark();
    let count = 0;
    const markCall = (call: ChatToolCall): ChatToolCall => ({
      ...call,
      function: { ...call.function, arguments: `{"${mark}${count++}_": 1}` },
    });
    const marked = messages.map((message) =>
      hasToolCalls(message)
        ? { ...message, tool_calls: message.tool_calls!.map(markCall) }
        : message,
    );
    const shown = (form: CallForm): number => {
      const prompt = this.#tryRender({ ...input, messages: marked }, form);
      if (prompt === undefined) return -1;
      const [before, behind] = form.args === "text" ? ['{"', '": 1}'] : ["", ""];
      return marksShown(prompt, new RegExp(`${before}${mark}(\\d+)_${behind}`, "g"));
    };
    let best = PLAIN_FORM;
    let most = -1;
    for (const form of forms) {
      const number = shown(form);
      if (number > most) [best, most] = [form, number];
      if (most === count) break;
    }
    // Nothing is learned from calls that are not printed at all.
    if (most > 0) this.#callForms.set(kind, best);
    return best;
  }

  /** Moves the instructions to where the template prints all of them. */
  #placeInstructions(input: ChatTemplateInput, form: CallForm): readonly ChatMessage[] {
    const { messages } = input;
    const instructions = messages.filter(isInstruction);
    const simple = instructions.length === 1 && messages[0]!.role === "system";
    if (instructions.length === 0 || simple) return messages;

    const mark = randomMark();
    let next = 0;
    const marked = messages.map((message) =>
      isInstruction(message) ? { ...message, content: `${mark}${next++}_` } : message,
    );
    const pattern = new RegExp(`${mark}(\\d+)_`, "g");
    const placed = instructionForms(marked).findIndex((candidate) => {
      const prompt = this.#tryRender({ ...input, messages: candidate }, form);
      return prompt !== undefined && marksShown(prompt, pattern) === instructions.length;
    });
    return instructionForms(messages)[Math.max(placed, 0)]!;
  }

  #tryRender(input: ChatTemplateInput, form: CallForm): string | undefined {
    try {
      return this.#renderWith(input, form);
    } catch (error) {
      // Once is enough of a rendering without end.
      if ((error as Error).cause instanceof TemplateLimit) throw error;
      return undefined; // not in this form, or not at all: then rendering it for real says why
    }
  }
}

/** A word that stands nowhere in the input: no client knows it before it is used. */
function randomMark(): string {
  return `mark${newRequestId()}x`;
}

/** How many different marks a prompt has; `pattern` takes their numbers. */
function marksShown(prompt: string, pattern: RegExp): number {
  return new Set(Array.from(prompt.matchAll(pattern), ([, number]) => number)).size;
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
