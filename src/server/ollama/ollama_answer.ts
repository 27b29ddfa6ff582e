/**
 * Answers in Ollama's shape: a line of JSON for each piece, and a last one with counts and times.
 *
 * @module
 */
import type { GroupChunk } from "../generation_group.ts";
import {
  type AnswerBlock,
  BlockAnswer,
  type BlockEvent,
  readArguments,
} from "../wire/answer_blocks.ts";
import { wireWarnings } from "../wire/metadata.ts";
import type { OllamaBody } from "./ollama_request.ts";

/** What an answer's piece is: of `/api/chat` a message, of `/api/generate` a text. */
export type OllamaForm = "chat" | "generate";

interface Said {
  readonly content: string;
  readonly thinking?: string;
  readonly calls?: readonly object[];
}

const NS_PER_MS = 1_000_000;

export class OllamaAnswer {
  readonly #body: OllamaBody;
  readonly #form: OllamaForm;
  readonly #answer: BlockAnswer;
  readonly #startedAt = performance.now();
  #firstTokenAt: number | undefined;

  constructor(body: OllamaBody, form: OllamaForm) {
    this.#body = body;
    this.#form = form;
    this.#answer = new BlockAnswer(body.parsing);
  }

  /** What a chunk lets the client know. */
  events({ chunk }: GroupChunk): readonly object[] {
    if (chunk.tokens.length > 0) this.#firstTokenAt ??= performance.now();
    return this.#answer.take(chunk).flatMap((event) => {
      const said = saidOf(event);
      return said === undefined ? [] : [this.#line(said, { done: false })];
    });
  }

  lastEvents(warnings: readonly string[]): readonly object[] {
    return [this.#line({ content: "" }, this.#end(warnings))];
  }

  /** The answer, once it is whole. */
  wire(warnings: readonly string[]): object {
    const { blocks } = this.#answer;
    const textOf = (kind: string) =>
      blocks.flatMap((block) => (block.kind === kind ? [block.text] : [])).join("");
    const calls = blocks.filter(({ kind, isCut }) => kind === "call" && !isCut).map(wireCall);
    const thinking = textOf("reasoning");
    const said = {
      content: textOf("content"),
      ...(thinking !== "" && { thinking }),
      ...(calls.length > 0 && { calls }),
    };
    return this.#line(said, this.#end(warnings));
  }

  #line({ content, thinking, calls }: Said, end: object): object {
    const thought = thinking === undefined ? {} : { thinking };
    const called = calls === undefined ? {} : { tool_calls: calls };
    const said =
      this.#form === "chat"
        ? { message: { role: "assistant", content, ...thought, ...called } }
        : { response: content, ...thought };
    return { model: this.#body.model, created_at: new Date().toISOString(), ...said, ...end };
  }

  #end(warnings: readonly string[]): object {
    const { finish, promptTokens, completionTokens } = this.#answer.last;
    const now = performance.now();
    const firstTokenAt = this.#firstTokenAt ?? now;
    return {
      done: true,
      done_reason: finish.type,
      total_duration: nanoseconds(now - this.#startedAt),
      load_duration: 0,
      prompt_eval_count: promptTokens,
      prompt_eval_duration: nanoseconds(firstTokenAt - this.#startedAt),
      eval_count: completionTokens,
      eval_duration: nanoseconds(now - firstTokenAt),
      ...wireWarnings(warnings),
    };
  }
}

function nanoseconds(milliseconds: number): number {
  return Math.round(milliseconds * NS_PER_MS);
}

/** A call is told when it is whole: one that is cut off never. */
function saidOf(event: BlockEvent): Said | undefined {
  const { kind, isCut } = event.block;
  if (event.type === "end" && kind === "call" && !isCut)
    return { content: "", calls: [wireCall(event.block)] };
  if (event.type !== "text" || kind === "call") return undefined;
  return kind === "content" ? { content: event.text } : { content: "", thinking: event.text };
}

function wireCall(block: AnswerBlock): object {
  const { id, name } = block;
  return { id, function: { name, arguments: readArguments(block) } };
}
