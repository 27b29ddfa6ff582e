/**
 * Gets one answer from the engine: rounds of text and tool calls, until the model has said all.
 *
 * The engine is used directly, not through the HTTP interface: its chunks have types, counts of
 * tokens and errors with names, where a response would have to be taken apart again.
 *
 * @module
 */
import {
  type ChatMessage,
  compileGrammar,
  createMessageParser,
  type FinishReason,
  type GenerationChunk,
  type GenerationEngine,
  type GenerationRequest,
  type MessageEvent,
  marksOf,
  parsersOf,
  thinkingOf,
} from "wisp-llm";
import { explainError } from "../model/explain_error.ts";
import { type AssistantTurn, type Round, roundMessages, type TurnEnd } from "./conversation.ts";
import { type Settings, samplingParams, type Thinking } from "./settings.ts";
import { AnswerClock, type AnswerStats } from "./stats.ts";
import { runTool, type Tool, toolSchemas } from "./tools.ts";

/** A model that calls the same tools for ever is stopped after so many rounds. */
export const MAX_ROUNDS = 6;

export interface AnswerOptions {
  readonly engine: GenerationEngine;
  /** The conversation up to the question. */
  readonly messages: readonly ChatMessage[];
  readonly settings: Settings;
  /** None for answers without tools. */
  readonly tools: readonly Tool[];
  readonly signal: AbortSignal;
  /** Called after every chunk, and once it is over. */
  readonly onChange: (stats: AnswerStats) => void;
}

/** Fills `turn`, whatever happens: errors and an abort become its end. */
export async function answer(turn: AssistantTurn, options: AnswerOptions): Promise<void> {
  const clock = new AnswerClock();
  try {
    turn.end = await followRounds(turn, clock, options);
    if (options.settings.answersJson) turn.fitsSchema = fitsSchema(turn, options.settings.schema);
  } catch (error) {
    if (options.signal.aborted) turn.end = "stopped";
    else {
      turn.end = "error";
      const { text, advice } = explainError(error);
      turn.error = advice === undefined ? text : `${text} ${advice}`;
    }
  }
  turn.stats = clock.stats;
  options.onChange(clock.progress(true));
}

async function followRounds(
  turn: AssistantTurn,
  clock: AnswerClock,
  options: AnswerOptions,
): Promise<TurnEnd> {
  const { tools, signal } = options;
  const messages = [...options.messages];
  for (let count = 0; count < MAX_ROUNDS; count++) {
    const round: Round = { reasoning: "", content: "", calls: [] };
    turn.rounds.push(round);
    const finish = await generateRound(round, messages, { ...options, turn, clock });
    if (finish.type !== "stop") return finish.type === "length" ? "length" : "stopped";
    if (round.calls.length === 0) return "stop";
    for (const call of round.calls) {
      const { result, isRefused } = runTool(tools, call.name, call.arguments);
      Object.assign(call, { result, isRefused });
    }
    signal.throwIfAborted();
    messages.push(...roundMessages(round));
  }
  return "rounds";
}

interface RoundOptions extends AnswerOptions {
  readonly turn: AssistantTurn;
  readonly clock: AnswerClock;
}

async function generateRound(
  round: Round,
  messages: readonly ChatMessage[],
  options: RoundOptions,
): Promise<FinishReason> {
  const { engine, signal, turn, clock, onChange } = options;
  const { request, parser } = prepare(messages, options);
  clock.startRound();
  let last: GenerationChunk | undefined;
  for await (const chunk of engine.generate({ ...request, signal })) {
    last = chunk;
    for (const event of parser.push(chunk.text)) apply(round, event);
    if (chunk.finish !== null) for (const event of parser.end()) apply(round, event);
    clock.take(chunk);
    turn.stats = clock.stats;
    onChange(clock.progress(false));
  }
  return last!.finish!;
}

/** The request of a round, and the parser of its answer. */
function prepare(messages: readonly ChatMessage[], { engine, settings, tools }: AnswerOptions) {
  const { model } = engine;
  const usesTools = tools.length > 0 && !settings.answersJson;
  const variables = thinkingVariables(model.thinkingVariables, settings.thinking);
  const parsing = {
    ...parsersOf(model.family),
    tools: usesTools ? tools.map(({ name }) => name) : [],
    wantsThinking: settings.thinking === "on",
  };
  const marks = marksOf(parsing);
  const thinking = thinkingOf(parsing);
  const request: GenerationRequest = {
    messages,
    ...(usesTools && { tools: toolSchemas(tools) }),
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

function apply(round: Round, event: MessageEvent): void {
  switch (event.type) {
    case "reasoning":
      round.reasoning += event.text;
      break;
    case "content":
      round.content += event.text;
      break;
    case "call":
      round.calls.push({ id: event.id, name: event.name, arguments: "" });
      break;
    case "arguments":
      round.calls[event.index]!.arguments += event.text;
      break;
    case "callEnd":
      break;
    default:
      event satisfies never;
  }
}

function fitsSchema({ rounds }: AssistantTurn, schema: string): boolean {
  const text = rounds.at(-1)?.content ?? "";
  return compileGrammar({ jsonSchema: schema }).accepts(text.trim());
}
