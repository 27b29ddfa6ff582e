/**
 * An answer as the blocks that it is made of, for interfaces that tell of it block by block: thoughts,
 * texts and calls, one behind the other.
 *
 * @module
 */
import type { GenerationChunk } from "../../generation.ts";
import { nestsTooDeep } from "../../request_limits.ts";
import type { MessageEvent, MessageParserOptions } from "../../text/message_parser.ts";
import { AnswerParser } from "./answer_parser.ts";
import { type FinishedChunk, requireFinished } from "./chat_message.ts";

export interface AnswerBlock {
  readonly kind: "reasoning" | "content" | "call";
  /** Its place in the answer, from 0. */
  readonly index: number;
  /** All of it so far; of a call its arguments. */
  text: string;
  /** Whether the answer's limit, or an abort, has ended it. */
  isCut: boolean;
  /** Of a call. */
  readonly id: string;
  readonly name: string;
}

/** Arguments of a call as the object that they are; of those that are cut off, none. */
export function readArguments({ text }: AnswerBlock): unknown {
  return parseArguments(text) ?? {};
}

/** Undefined where they are no JSON, or nest too deep to be read. */
function parseArguments(text: string): unknown {
  if (nestsTooDeep(text)) return undefined;
  try {
    return JSON.parse(text) as unknown;
  } catch {
    return undefined;
  }
}

export type BlockEvent =
  | { readonly type: "begin"; readonly block: AnswerBlock }
  | { readonly type: "end"; readonly block: AnswerBlock }
  | { readonly type: "text"; readonly block: AnswerBlock; readonly text: string };

export class BlockAnswer {
  readonly blocks: AnswerBlock[] = [];
  readonly #parser: AnswerParser;
  #open: AnswerBlock | undefined;
  #last: GenerationChunk | null = null;

  constructor(parsing: MessageParserOptions) {
    this.#parser = new AnswerParser(parsing);
  }

  get hasCalls(): boolean {
    return this.blocks.some(({ kind }) => kind === "call");
  }

  get reasoningTokens(): number {
    return this.#parser.reasoningTokens;
  }

  /** @throws {Error} before the answer is over. */
  get last(): FinishedChunk {
    return requireFinished(this.#last);
  }

  /** What a chunk lets the client know. */
  take(chunk: GenerationChunk): readonly BlockEvent[] {
    this.#last = chunk;
    const told: BlockEvent[] = [];
    for (const event of this.#parser.take(chunk)) this.#append(event, told);
    if (chunk.finish === null) return told;
    const isCut = chunk.finish.type !== "stop";
    const last = this.blocks.at(-1);
    if (last !== undefined && (last === this.#open || this.#isPart(last))) last.isCut = isCut;
    this.#close(told);
    return told;
  }

  /** Parsers end a call that is cut off as one that is whole; only its arguments tell. */
  #isPart({ kind, text }: AnswerBlock): boolean {
    if (kind !== "call") return false;
    return this.#parser.endsWithoutArguments || parseArguments(text) === undefined;
  }

  #append(event: MessageEvent, told: BlockEvent[]): void {
    switch (event.type) {
      case "content":
      case "reasoning":
        if (this.#open?.kind !== event.type)
          this.#begin({ kind: event.type, id: "", name: "" }, told);
        this.#write(event.text, told);
        break;
      case "call":
        this.#begin({ kind: "call", id: event.id, name: event.name }, told);
        break;
      case "arguments":
        this.#write(event.text, told);
        break;
      case "callEnd":
        this.#close(told);
        break;
      default:
        event satisfies never;
    }
  }

  #begin(kind: Pick<AnswerBlock, "kind" | "id" | "name">, told: BlockEvent[]): void {
    this.#close(told);
    const block: AnswerBlock = { ...kind, index: this.blocks.length, text: "", isCut: false };
    this.blocks.push(block);
    this.#open = block;
    told.push({ type: "begin", block });
  }

  #write(text: string, told: BlockEvent[]): void {
    const block = this.#open;
    if (block === undefined) throw new Error("Cannot write an answer: no block of it is open");
    block.text += text;
    told.push({ type: "text", block, text });
  }

  #close(told: BlockEvent[]): void {
    if (this.#open !== undefined) told.push({ type: "end", block: this.#open });
    this.#open = undefined;
  }
}
