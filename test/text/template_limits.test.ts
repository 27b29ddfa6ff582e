import { describe, expect, test, vi } from "vitest";
import { InvalidRequestError } from "../../src/errors.ts";
import { ChatTemplate } from "../../src/text/chat_template.ts";

describe("a rendering", () => {
  const messages = [
    { role: "system", content: "a" },
    { role: "user", content: "b" },
    { role: "system", content: "c" },
  ];
  const call = { type: "function", function: { name: "f", arguments: "{}" } } as const;

  test("looks for no word that its texts do not have", () => {
    const template = new ChatTemplate(
      "{% for m in messages %}<{{ m.role }}>{{ m.content }}{% endfor %}",
      {},
    );
    const content = `mark ${Array.from({ length: 2000 }, (_, i) => `mark${i}`).join(" ")}`;
    const includes = vi.spyOn(String.prototype, "includes");
    const rendered = template.render({
      messages: [{ role: "user", content }, ...messages],
      addGenerationPrompt: true,
    });
    const searches = includes.mock.calls.length;
    includes.mockRestore();
    expect(rendered).toContain(`<user>${content}<system>a`);
    expect(searches).toBeLessThan(100);
  });

  test.each([
    "{% for i in range(1000) %}{% for j in range(1000) %}{% endfor %}{% endfor %}",
    "{% macro f(n) %}{% for i in range(9) %}{{ f(n - 1) if n > 0 }}{{ f(n - 1) if n > 0 }}{% endfor %}{% endmacro %}{{ f(9) }}",
    "{% for i in range(1000000000) %}a{% endfor %}",
    "{% for i in range(1, 10, 0) %}a{% endfor %}",
  ])("without end is refused, and tried once in whatever form: %s", (source) => {
    let count = 0;
    const now = () => {
      count += 1;
      return new Date();
    };
    const template = new ChatTemplate(source, {}, { now, maxStatements: 5000 });
    const assistant = { role: "assistant", content: null, tool_calls: [call, call] };
    const tools = [{ type: "function", function: { name: "f" } }];
    expect(() =>
      template.render({ messages: [...messages, assistant], tools, addGenerationPrompt: true }),
    ).toThrow(InvalidRequestError);
    expect(count).toBe(1);
  });

  test("has room for a hundred thousand numbers", () => {
    const template = new ChatTemplate("{{ range(100000) | length }}", {});
    expect(template.render({ messages, addGenerationPrompt: true })).toBe("100000");
  });
});
