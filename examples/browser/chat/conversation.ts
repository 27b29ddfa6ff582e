/**
 * A chat as it is shown and kept, and the messages that the model is given of it.
 *
 * @module
 */
import type { ChatMessage } from "wisp-llm";

export interface Chat {
  readonly id: string;
  /** What the model is told before everything else; "" for nothing. */
  system: string;
  turns: Turn[];
  /** Milliseconds of the epoch. */
  changedAt: number;
}

export type Turn = UserTurn | AssistantTurn;

export interface UserTurn {
  readonly role: "user";
  text: string;
  /** Data URLs of PNG files. */
  readonly images?: readonly string[];
}

/** One answer: as many rounds as the model took to get there by calling tools. */
export interface AssistantTurn {
  readonly role: "assistant";
  rounds: Round[];
  end: TurnEnd;
  /** Present when `end` is "error". */
  error?: string;
  stats?: TurnStats;
  /** Of an answer that had to be JSON: whether it fits its schema. */
  fitsSchema?: boolean;
}

export type TurnEnd = "running" | "stop" | "length" | "stopped" | "rounds" | "error";

export interface Round {
  reasoning: string;
  content: string;
  calls: ToolUse[];
}

export interface ToolUse {
  readonly id: string;
  readonly name: string;
  /** JSON, as the model wrote it. */
  arguments: string;
  /** What the tool said; absent until it has run. */
  result?: string;
  isRefused?: boolean;
}

export interface TurnStats {
  /** Of the last round, whose prompt has those before in it. */
  promptTokens: number;
  /** Undefined where whatever answered does not tell. */
  cachedTokens: number | undefined;
  /** Of all rounds. */
  completionTokens: number;
  /** From the question to the first token. */
  firstTokenSeconds: number;
  /** Of the steps behind each round's first token. */
  tokensPerSecond: number | undefined;
}

export function newChat(): Chat {
  // Pages without https have no crypto.randomUUID, and are to say what else they lack.
  const id = Array.from(crypto.getRandomValues(new Uint32Array(4)), (word) => word.toString(36));
  return { id: id.join("-"), system: "", turns: [], changedAt: Date.now() };
}

export function newAnswer(): AssistantTurn {
  return { role: "assistant", rounds: [], end: "running" };
}

/** The beginning of the first question. */
export function titleOf({ turns }: Chat): string {
  const first = turns.find((turn) => turn.role === "user");
  const line = first?.text.trim().split("\n")[0] ?? "";
  if (line === "") return "New chat";
  return line.length > 60 ? `${line.slice(0, 59)}…` : line;
}

/** What the visitor takes along when copying an answer. */
export function textOf({ rounds }: AssistantTurn): string {
  return rounds
    .map(({ content }) => content.trim())
    .filter((text) => text !== "")
    .join("\n\n");
}

export function messagesOf({ system, turns }: Pick<Chat, "system" | "turns">): ChatMessage[] {
  const instructions = system.trim() === "" ? [] : [{ role: "system", content: system }];
  return [...instructions, ...turns.flatMap(turnMessages)];
}

/** Those that the messages have places for, in order. */
export function imagesOf({ turns }: Pick<Chat, "turns">): readonly string[] {
  return turns.flatMap((turn) => (turn.role === "user" ? (turn.images ?? []) : []));
}

function turnMessages(turn: Turn): ChatMessage[] {
  if (turn.role !== "user") return turn.rounds.flatMap(roundMessages);
  const { text, images = [] } = turn;
  if (images.length === 0) return [{ role: "user", content: text }];
  const places = images.map(() => ({ type: "image" }) as const);
  return [{ role: "user", content: [...places, { type: "text", text }] }];
}

/** What one round said and called, and what the tools answered. */
export function roundMessages({ content, reasoning, calls }: Round): ChatMessage[] {
  // A call that was broken off has no answer, and templates want one for each.
  const answered = calls.filter(({ result }) => result !== undefined);
  if (content === "" && answered.length === 0) return [];
  const toolCalls = answered.map(({ id, name, arguments: text }) => ({
    id,
    type: "function" as const,
    function: { name, arguments: text },
  }));
  const message: ChatMessage = {
    role: "assistant",
    content,
    ...(reasoning !== "" && { reasoning_content: reasoning }),
    ...(toolCalls.length > 0 && { tool_calls: toolCalls }),
  };
  const results = answered.map(({ id, result }) => ({
    role: "tool",
    tool_call_id: id,
    content: result!,
  }));
  return [message, ...results];
}
