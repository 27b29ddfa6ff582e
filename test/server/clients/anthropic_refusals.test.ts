/** What the unmodified `@anthropic-ai/sdk` client shows of refusals, over a socket. */
import Anthropic from "@anthropic-ai/sdk";
import { describe, expect, test } from "vitest";
import { asked, closeServers, setUp, thrownBy } from "../../support/server/anthropic_client.ts";

const tools: Anthropic.Tool[] = [{ name: "get_weather", input_schema: { type: "object" } }];

closeServers();

describe("an error", () => {
  const image = { type: "image", source: { type: "url", url: "http://a/b.png" } } as const;
  const refusals: [string, object, string][] = [
    [
      "an image",
      { messages: [{ role: "user", content: [image] }] },
      "messages[0].content[0].source.url: the model reads text only",
    ],
    [
      "an image of a result",
      {
        messages: [
          { role: "user", content: [{ type: "tool_result", tool_use_id: "t", content: [image] }] },
        ],
      },
      'messages[0].content[0].content[0].type "image": only what a user says has images',
    ],
    ["no limit", { max_tokens: null }, "max_tokens is missing"],
    [
      "a tool of the server",
      { tools: [{ type: "web_search_20250305", name: "web_search" }] },
      'tools[0].type "web_search_20250305"',
    ],
    [
      "an unknown way to show thoughts",
      { thinking: { type: "adaptive", display: "whole" } },
      "thinking.display must be one of summarized, omitted",
    ],
    ["an unknown field", { seed: 3 }, "Cannot use seed: it is not a known field"],
    [
      "what would edit the context",
      { context_management: { edits: [{ type: "clear_tool_uses_20250919" }] } },
      "Cannot use context_management",
    ],
    [
      "an encrypted thought",
      { messages: [{ role: "assistant", content: [{ type: "redacted_thinking", data: "x" }] }] },
      'type "redacted_thinking"',
    ],
    [
      "a long prompt",
      { messages: [{ role: "user", content: "x".repeat(5000) }] },
      "longer than the model's context length",
    ],
    [
      "an unknown role",
      { messages: [{ role: "tool", content: "x" }] },
      "messages[0].role must be one of user, assistant, system",
    ],
    [
      "a call of a tool that is not there",
      { tools, tool_choice: { type: "tool", name: "now" } },
      "tool_choice.name must be the name of one of the tools",
    ],
  ];

  test.each(refusals)("about %s names it", async (_, fields, sentence) => {
    const { client } = await setUp();
    const error = await thrownBy(client.messages.create({ ...asked, ...fields } as typeof asked));
    expect(error).toBeInstanceOf(Anthropic.BadRequestError);
    const message = expect.stringContaining(sentence);
    expect(error.error).toEqual({
      type: "error",
      error: { type: "invalid_request_error", message },
    });
  });

  test("about a key is one, and both headers show it", async () => {
    const { client } = await setUp({ apiKey: "right" });
    const error = await thrownBy(client.messages.create(asked));
    expect(error).toBeInstanceOf(Anthropic.AuthenticationError);
    expect(error.type).toBe("authentication_error");
    for (const shown of [
      { apiKey: "right", authToken: null },
      { apiKey: null, authToken: "right" },
    ]) {
      const { content } = await client.withOptions(shown).messages.create(asked);
      expect(content).toHaveLength(1);
    }
  });

  test("about a full server says that it is", async () => {
    const { client } = await setUp({ capacity: 0 });
    const error = await thrownBy(client.messages.create(asked));
    expect(error).toMatchObject({ status: 503, type: "overloaded_error" });
    expect(error.headers!.get("retry-after")).toBe("1");
  });
});
