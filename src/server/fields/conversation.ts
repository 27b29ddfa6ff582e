/**
 * What a conversation asks for, however its interface spells it -> a `GenerationRequest`, and how its
 * answer is taken apart.
 *
 * @module
 */
import { textOf } from "../../chat_message.ts";
import { UnsupportedError } from "../../errors.ts";
import type { ChatMessage, GenerationRequest, ModelDescription } from "../../generation.ts";
import { present } from "../../http/fields.ts";
import { constraintsIn, type SamplingParams } from "../../sampling_params.ts";
import { type MessageParserOptions, marksOf, thinkingOf } from "../../text/message_parser.ts";
import type { MessageForms } from "../server_context.ts";
import { asksToThink } from "./thinking_fields.ts";
import { type RequestTools, toolConstraint } from "./tool_fields.ts";

export interface Conversation
  extends Omit<GenerationRequest, "messages" | "sampling" | "tools" | "constraint" | "thinking"> {
  readonly messages: readonly ChatMessage[];
  readonly sampling: SamplingParams;
  readonly tools: RequestTools;
  /** See `MessageParserOptions`. */
  readonly separatesReasoning?: boolean;
  readonly streamsReasoning?: boolean;
}

/** What its answer is made from. */
export interface ConversationRequest {
  readonly request: GenerationRequest;
  readonly parsing: MessageParserOptions;
}

/**
 * @param form Name of the field that asks for a form of the answer.
 * @throws {UnsupportedError | InvalidRequestError} where the model cannot be held to its tools or its form.
 */
export function conversationRequest(
  { tools, sampling, separatesReasoning, streamsReasoning, ...rest }: Conversation,
  { forms, form }: { readonly forms: MessageForms; readonly form: string },
): ConversationRequest {
  const { messages, continueFinalMessage, templateVariables } = rest;
  const parsing = present<MessageParserOptions>({
    ...forms,
    tools: tools.names,
    separatesReasoning,
    streamsReasoning,
    wantsThinking: asksToThink(templateVariables),
    continued: continueFinalMessage ? textOf(messages.at(-1)!.content) : undefined,
  });
  refuseTwoForms(sampling, { form, isCallEnforced: tools.enforced !== undefined, forms });
  const constraint = tools.enforced && toolConstraint(tools.enforced, forms.toolCalls);
  const marks = marksOf(parsing);
  // Who reads the calls out of the content needs their marks.
  const showsMarks = tools.shown !== undefined && forms.toolCalls === undefined;
  const shown = present<SamplingParams>({
    skipSpecialTokens: showsMarks ? false : undefined,
    shownSpecialTokens: marks.length === 0 ? undefined : marks,
  });
  const request = present<GenerationRequest>({
    ...rest,
    tools: tools.shown,
    sampling: { ...shown, ...sampling },
    constraint,
    thinking: thinkingOf(parsing),
  });
  return { request, parsing };
}

/** What a request does not say of how its answer is drawn, the model's checkpoint does. */
export function withModelDefaults(
  asked: SamplingParams,
  { defaults }: Pick<ModelDescription, "defaults">,
): SamplingParams {
  return present<SamplingParams>({
    ...asked,
    temperature: asked.temperature ?? defaults.temperature ?? 1,
    topP: asked.topP ?? defaults.topP ?? 1,
    topK: asked.topK ?? defaults.topK,
    maxNewTokens:
      asked.maxNewTokens === undefined ? (defaults.maxNewTokens ?? null) : asked.maxNewTokens,
  });
}

interface AskedForms {
  readonly form: string;
  readonly isCallEnforced: boolean;
  readonly forms: MessageForms;
}

/** The form of calls and that of a text are two grammars, and gpt-oss wraps its texts in messages. */
function refuseTwoForms(
  sampling: SamplingParams,
  { form, isCallEnforced, forms }: AskedForms,
): void {
  if (constraintsIn(sampling).length === 0) return;
  if (isCallEnforced) {
    throw new UnsupportedError(form, "the request also has tool calls that are enforced");
  }
  if (forms.reasoning === "gpt-oss" || forms.toolCalls === "gpt-oss") {
    throw new UnsupportedError(form, "answers of gpt-oss are messages on channels");
  }
}
