/**
 * Blocks of an answer as items of a response's output, and the events that tell of them.
 *
 * @module
 */
import type { AnswerBlock, BlockEvent } from "../wire/answer_blocks.ts";

/** An event without its number. */
export interface ItemEvent {
  readonly type: string;
  readonly [field: string]: unknown;
}

const PREFIXES = { reasoning: "rs", content: "msg", call: "fc" } as const;

type ItemStatus = "in_progress" | "completed" | "incomplete";

export class ResponseItems {
  readonly #key: string;

  /** @param responseId Ids of items are made from it. */
  constructor(responseId: string) {
    this.#key = responseId.slice(responseId.indexOf("_") + 1);
  }

  /** A block that has ended, or been cut off. */
  item(block: AnswerBlock): object {
    const status = block.isCut ? "incomplete" : "completed";
    return this.#item(block, { status, text: block.text, parts: [part(block, block.text)] });
  }

  events(event: BlockEvent): readonly ItemEvent[] {
    const { block } = event;
    if (event.type === "begin") return this.#begin(block);
    if (event.type === "end") return this.#end(block);
    const type = {
      reasoning: "response.reasoning_text.delta",
      content: "response.output_text.delta",
      call: "response.function_call_arguments.delta",
    }[block.kind];
    return [{ type, ...this.#place(block), delta: event.text, ...noLogprobs(block) }];
  }

  #begin(block: AnswerBlock): readonly ItemEvent[] {
    const item = this.#item(block, { status: "in_progress", text: "", parts: [] });
    const added = { type: "response.output_item.added", output_index: block.index, item };
    if (block.kind === "call") return [added];
    const place = this.#place(block);
    return [added, { type: "response.content_part.added", ...place, part: part(block, "") }];
  }

  #end(block: AnswerBlock): readonly ItemEvent[] {
    const { kind, index, name, text } = block;
    const place = this.#place(block);
    const done = { type: "response.output_item.done", output_index: index, item: this.item(block) };
    if (kind === "call") {
      if (block.isCut) return [done];
      const type = "response.function_call_arguments.done";
      return [{ type, ...place, name, arguments: text }, done];
    }
    const type = kind === "content" ? "response.output_text.done" : "response.reasoning_text.done";
    return [
      { type, ...place, text, ...noLogprobs(block) },
      { type: "response.content_part.done", ...place, part: part(block, text) },
      done,
    ];
  }

  #place(block: AnswerBlock): object {
    const place = { item_id: this.#id(block), output_index: block.index };
    return block.kind === "call" ? place : { ...place, content_index: 0 };
  }

  #id({ kind, index }: AnswerBlock): string {
    return `${PREFIXES[kind]}_${this.#key}_${index}`;
  }

  #item(
    block: AnswerBlock,
    {
      status,
      text,
      parts,
    }: { readonly status: ItemStatus; readonly text: string; readonly parts: readonly object[] },
  ): object {
    const id = this.#id(block);
    const { kind, name } = block;
    if (kind === "call") {
      return { id, type: "function_call", status, call_id: block.id, name, arguments: text };
    }
    if (kind === "reasoning") return { id, type: "reasoning", status, summary: [], content: parts };
    return { id, type: "message", status, role: "assistant", content: parts };
  }
}

function part({ kind }: AnswerBlock, text: string): object {
  if (kind === "reasoning") return { type: "reasoning_text", text };
  return { type: "output_text", text, annotations: [], logprobs: [] };
}

/** Where clients look for them. */
function noLogprobs({ kind }: AnswerBlock): object {
  return kind === "content" ? { logprobs: [] } : {};
}
