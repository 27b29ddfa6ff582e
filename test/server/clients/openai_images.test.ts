/** Images in a streamed chat of the unmodified `openai` client, over a socket. */
import OpenAI from "openai";
import { afterAll, beforeAll, expect, test } from "vitest";
import { type RunningServer, serve } from "../../../src/node/serve/http.ts";
import { createApp } from "../../../src/server/app.ts";
import { ScriptedEngine } from "../../support/engines/scripted_engine.ts";
import { writePng } from "../../support/images/write_png.ts";

const engine = new ScriptedEngine({
  model: { readsImages: true },
  script: () => ({ pieces: ["A ", "cat"] }),
});
let server: RunningServer;
let client: OpenAI;
beforeAll(async () => {
  server = await serve(createApp(engine), { host: "127.0.0.1", port: 0 });
  client = new OpenAI({ apiKey: "none", baseURL: `${server.url}/v1`, maxRetries: 0 });
});
afterAll(() => server.close(0));

/** A file whose pixels are all this grey. */
const png = (grey: number) =>
  Buffer.from(writePng({ colorType: 0, bitDepth: 8, width: 4, height: 4, sample: () => grey }));
const image = (file: Buffer, detail: "low" | "high") => ({
  type: "image_url" as const,
  image_url: { url: `data:image/png;base64,${file.toString("base64")}`, detail },
});

test("images of several turns reach the model in their order, and the answer is streamed", async () => {
  const [first, second, third] = [png(10), png(120), png(230)];
  const stream = await client.chat.completions.create({
    model: engine.model.path,
    messages: [
      {
        role: "user",
        content: [image(first, "low"), { type: "text", text: "Which?" }, image(second, "high")],
      },
      { role: "assistant", content: "Two." },
      { role: "user", content: [{ type: "text", text: "And this?" }, image(third, "high")] },
    ],
    stream: true,
    stream_options: { include_usage: true },
  });
  let text = "";
  let usage: unknown;
  for await (const chunk of stream) {
    text += chunk.choices[0]?.delta.content ?? "";
    usage = chunk.usage ?? usage;
  }
  expect(text).toBe("A cat");
  // With the token that ends it.
  expect(usage).toMatchObject({ completion_tokens: 3 });
  const { images, messages } = engine.requests[0]!;
  expect(images?.map((bytes) => Buffer.from(bytes as Uint8Array))).toEqual([first, second, third]);
  const parts = messages!.map(({ content }) =>
    typeof content === "string" ? content : content?.map((part) => Object.values(part)),
  );
  expect(parts).toEqual([
    [
      ["image", "low"],
      ["text", "Which?"],
      ["image", "high"],
    ],
    "Two.",
    [
      ["text", "And this?"],
      ["image", "high"],
    ],
  ]);
});

test("an image that cannot be read is named to the client", async () => {
  const broken = { type: "image_url", image_url: { url: "data:image/png;base64,%%%" } } as const;
  const asked = client.chat.completions.create({
    model: engine.model.path,
    messages: [{ role: "user", content: [broken] }],
    stream: true,
  });
  await expect(asked).rejects.toMatchObject({
    status: 400,
    message: expect.stringContaining("messages[0].content[0]"),
  });
});
