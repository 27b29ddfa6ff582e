/**
 * Answers of an engine in this page.
 *
 * The engine is used directly, not through the HTTP interface: its chunks have types, counts of
 * tokens and errors with names, where a response would have to be taken apart again.
 *
 * @module
 */
import {
  createMessageParser,
  type GenerationEngine,
  type GenerationRequest,
  marksOf,
  parsersOf,
  thinkingOf,
} from "wisp-llm";
import type { AnswerSource, RoundPiece, RoundRequest } from "../chat/answer_source.ts";
import { samplingParams, type Thinking } from "../chat/settings.ts";
import { toolSchemas } from "../chat/tools.ts";
import { explainError } from "./explain_error.ts";

export function engineSource(engine: GenerationEngine): AnswerSource {
  return {
    model: engine.model,
    round: (request) => generateRound(engine, request),
    explain: explainError,
  };
}

async function* generateRound(
  engine: GenerationEngine,
  options: RoundRequest,
): AsyncGenerator<RoundPiece, void> {
  const { request, parser } = prepare(engine, options);
  for await (const chunk of engine.generate({ ...request, signal: options.signal })) {
    const { text, finish, requestId, promptTokens, cachedTokens, completionTokens } = chunk;
    const events = [...parser.push(text), ...(finish === null ? [] : parser.end())];
    const progress = { requestId, promptTokens, cachedTokens, completionTokens };
    yield { ...progress, events, finish: finish === null ? null : finish.type };
  }
}

/** The request of a round, and the parser of its answer. */
function prepare({ model }: GenerationEngine, asked: RoundRequest) {
  const { messages, images, settings, tools } = asked;
  const variables = thinkingVariables(model.thinkingVariables, settings.thinking);
  const parsing = {
    ...parsersOf(model.family),
    tools: tools.map(({ name }) => name),
    wantsThinking: settings.thinking === "on",
  };
  const marks = marksOf(parsing);
  const thinking = thinkingOf(parsing);
  const request: GenerationRequest = {
    messages,
    ...(images.length > 0 && { images: images.map(bytesOf) }),
    ...(tools.length > 0 && { tools: toolSchemas(tools) }),
    ...(variables && { templateVariables: variables }),
    ...(thinking && { thinking }),
    sampling: {
      ...samplingParams(settings.sampling, model.defaults),
      ...(marks.length > 0 && { shownSpecialTokens: marks }),
      ...(settings.answersJson && { jsonSchema: settings.schema }),
    },
  };
  return { request, parser: createMessageParser(parsing) };
}

/** The variables of the chat template by which this model is told to think, or not to. */
function thinkingVariables(known: readonly string[], thinking: Thinking) {
  const name = known.find((one) => one === "thinking" || one === "enable_thinking");
  if (name === undefined || thinking === "auto") return undefined;
  return { [name]: thinking === "on" };
}

/** The file that a data URL has in it. */
function bytesOf(url: string): Uint8Array {
  return Uint8Array.from(atob(url.slice(url.indexOf(",") + 1)), (letter) => letter.charCodeAt(0));
}
