/** What the unmodified `openai` client shows of refusals of `/v1/responses`, over a socket. */
import { describe, expect, test } from "vitest";
import { asked, closeServers, setUp, thrownBy } from "../../support/server/responses_client.ts";

closeServers();

describe("what is not there", () => {
  const image = { type: "input_image", image_url: "http://a/b.png", detail: "auto" };
  test.each<[object, string, string]>([
    [
      { input: [{ role: "user", content: [image] }] },
      "input[0].content[0].image_url",
      "the model reads text only",
    ],
    [
      { input: [{ role: "developer", content: [image] }] },
      "input[0].content[0].type",
      "only what a user says has images",
    ],
    [
      { input: [{ type: "item_reference", id: "x" }] },
      "input[0].type",
      "the server does not have it",
    ],
    [
      { input: [{ type: "reasoning", id: "x", summary: [], encrypted_content: "x" }] },
      "input[0].encrypted_content",
      "no key",
    ],
    [{ tools: [{ type: "web_search" }] }, "tools[0].type", "only functions are there"],
    [{ background: true }, "background", "not supported"],
    [{ conversation: "c" }, "conversation", "not supported"],
    [{ truncation: "auto" }, "truncation", "not supported"],
    [{ include: ["message.output_text.logprobs"] }, "include", "not supported"],
    [
      { text: { format: { type: "grammar" } } },
      "text.format.type",
      "one of text, json_object, json_schema",
    ],
    [{ top_k: 3 }, "top_k", "not a known field"],
    [{ input: null }, "input", "missing"],
    [{ input: "x".repeat(5000) }, "input", "context length"],
    [{ max_output_tokens: 5000 }, "max_output_tokens", "maximum context length"],
    [{ metadata: { a: "x".repeat(20_000) } }, "metadata", "16384 characters"],
    [{ include: [{ toString: 1 }] }, "include", "not supported"],
    [
      {
        tools: [
          { type: "function", name: "f", parameters: {}, allowed_callers: [{ toString: 1 }] },
        ],
      },
      "tools[0].allowed_callers",
      "not supported",
    ],
  ])("%j is refused", async (fields, param, sentence) => {
    const { client } = await setUp();
    const error = await thrownBy(client.responses.create({ ...asked, ...fields }));
    expect(error).toMatchObject({ status: 400, param });
    expect(error.message).toContain(sentence);
  });
});
