import { expect, test } from "vitest";
import type { ChatMessage } from "../../src/generation.ts";
import { formMessages } from "../../src/text/message_forms.ts";

const FORM = { emptyContent: "", contentApart: false, oneCallEach: true, args: "text" } as const;
const call = (id: string) =>
  ({ id, type: "function", function: { name: "f", arguments: id } }) as const;

/** Ids of calls and texts of results, in their order. */
function order(messages: readonly ChatMessage[]): readonly string[] {
  return formMessages(messages, FORM).map(({ tool_calls: calls, content }) =>
    calls === undefined ? String(content) : (calls as readonly { id: string }[])[0]!.id,
  );
}

test("each call has its result behind it: the one that names it, else one that names none", () => {
  const calls = ["a", "b", "c", "a"].map(call);
  const result = (content: string, id?: string): ChatMessage => ({
    role: "tool",
    content,
    ...(id !== undefined && { tool_call_id: id }),
  });
  const results = [
    ...[result("for c", "c"), result("any"), result("for a", "a")],
    ...[result("for x", "x"), result("also a", "a"), result("also any")],
  ];
  const messages = [{ role: "assistant", content: null, tool_calls: calls }, ...results];
  expect(order(messages)).toEqual([
    "a",
    "for a",
    "b",
    "any",
    "c",
    "for c",
    "a",
    "also a",
    "for x",
    "also any",
  ]);
});

test("results of thousands of calls are looked at a few times each", () => {
  const count = 4000;
  let looks = 0;
  const ids = Array.from({ length: count }, (_, i) => `id ${i}`);
  const results = ids.toReversed().map((id) => ({
    role: "tool",
    content: `of ${id}`,
    get tool_call_id() {
      looks += 1;
      return id;
    },
  }));
  const messages = [{ role: "assistant", content: null, tool_calls: ids.map(call) }, ...results];
  expect(order(messages)).toEqual(ids.flatMap((id) => [id, `of ${id}`]));
  expect(looks).toBeLessThan(10 * count);
});
