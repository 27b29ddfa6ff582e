/**
 * Gets one answer: rounds of text and tool calls, until the model has said all.
 *
 * @module
 */
import { type ChatMessage, compileGrammar, type MessageEvent } from "wisp-llm";
import type { AnswerSource, RoundPiece } from "./answer_source.ts";
import { type AssistantTurn, type Round, roundMessages, type TurnEnd } from "./conversation.ts";
import type { Settings } from "./settings.ts";
import { AnswerClock, type AnswerStats } from "./stats.ts";
import { runTool, type Tool } from "./tools.ts";

/** A model that calls the same tools for ever is stopped after so many rounds. */
export const MAX_ROUNDS = 6;

export interface AnswerOptions {
  readonly source: AnswerSource;
  /** The conversation up to the question. */
  readonly messages: readonly ChatMessage[];
  /** Data URLs for its places of images, in order. */
  readonly images: readonly string[];
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
      const { text, advice } = options.source.explain(error);
      turn.error = advice === undefined ? text : `${asSentence(text)} ${advice}`;
    }
  }
  turn.stats = clock.stats;
  options.onChange(clock.progress(true));
}

function asSentence(text: string): string {
  return /[.!?]$/.test(text) ? text : `${text}.`;
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
    if (finish !== "stop") return finish === "length" ? "length" : "stopped";
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
): Promise<NonNullable<RoundPiece["finish"]>> {
  const { source, settings, images, signal, turn, clock, onChange } = options;
  // An answer in JSON calls no tools.
  const tools = settings.answersJson ? [] : options.tools;
  clock.startRound();
  let last: RoundPiece | undefined;
  for await (const piece of source.round({ messages, images, settings, tools, signal })) {
    last = piece;
    for (const event of piece.events) apply(round, event);
    clock.take(piece);
    turn.stats = clock.stats;
    onChange(clock.progress(false));
  }
  return last!.finish!;
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
