/**
 * Runs parsers over a text in every way it may be cut.
 *
 * @module
 */
import { expect } from "vitest";
import type { MessageEvent } from "../../src/text/message_parser.ts";

export interface Parser {
  push(text: string): readonly MessageEvent[];
  end(): readonly MessageEvent[];
}

/** What an answer amounts to. */
export interface ParsedMessage {
  readonly content: string;
  readonly reasoning: string;
  readonly calls: readonly { readonly name: string; readonly arguments: string }[];
}

/** Adds events up, and checks that calls begin, go on and end in order. */
export function collect(events: readonly MessageEvent[]): ParsedMessage {
  let content = "";
  let reasoning = "";
  const calls: { name: string; arguments: string }[] = [];
  let isOpen = false;
  for (const event of events) {
    // Plain checks: there are millions of events.
    if ("text" in event && event.text === "") throw new Error("An event says nothing");
    switch (event.type) {
      case "content":
        content += event.text;
        break;
      case "reasoning":
        reasoning += event.text;
        break;
      case "call":
        if (isOpen || event.index !== calls.length) throw new Error(`Call ${event.index} is early`);
        isOpen = true;
        calls.push({ name: event.name, arguments: "" });
        break;
      case "arguments":
      case "callEnd":
        if (!isOpen || event.index !== calls.length - 1) {
          throw new Error(`There is no open call ${event.index}`);
        }
        if (event.type === "arguments") calls.at(-1)!.arguments += event.text;
        else isOpen = false;
        break;
      default:
        event satisfies never;
    }
  }
  if (isOpen) throw new Error("A call has no end");
  return { content, reasoning, calls };
}

/** What a text amounts to when it comes in these pieces. */
export function parsePieces(create: () => Parser, pieces: readonly string[]): ParsedMessage {
  const parser = create();
  return collect([...pieces.flatMap((piece) => parser.push(piece)), ...parser.end()]);
}

/** What a text amounts to, which has to be the same in one piece, in two, in characters, and at random. */
export function parseAllCuts(create: () => Parser, text: string): ParsedMessage {
  const whole = parsePieces(create, [text]);
  for (let cut = 0; cut <= text.length; cut++) {
    const pieces = [text.slice(0, cut), text.slice(cut)];
    expect(parsePieces(create, pieces), `cut at ${cut}`).toEqual(whole);
  }
  expect(parsePieces(create, text.split(""))).toEqual(whole);
  for (let seed = 1; seed <= 20; seed++) {
    const pieces = randomPieces(text, seed);
    expect(parsePieces(create, pieces), JSON.stringify(pieces)).toEqual(whole);
  }
  return whole;
}

/** What has been told after each character. */
export function progress(create: () => Parser, text: string): MessageEvent[][] {
  const parser = create();
  return text.split("").map((character) => [...parser.push(character)]);
}

/** Pieces of 0 to 7 characters. */
export function randomPieces(text: string, seed: number): string[] {
  const pieces: string[] = [];
  let state = seed;
  for (let at = 0; at < text.length; ) {
    state = (Math.imul(state, 1664525) + 1013904223) >>> 0;
    const length = state >>> 29;
    pieces.push(text.slice(at, at + length));
    at += length;
  }
  return pieces;
}
