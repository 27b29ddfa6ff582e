/** `image_data` of `/generate` and image parts of chats, as an engine that reads images is given them. */
import { mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { BodyMemory } from "../../../src/http/body_memory.ts";
import { Fields } from "../../../src/http/fields.ts";
import { fromBase64 } from "../../../src/images/base64.ts";
import { localMedia } from "../../../src/node/media/local_media.ts";
import { type AppOptions, createApp } from "../../../src/server/app.ts";
import { readImageData } from "../../../src/server/fields/image_fields.ts";
import { ScriptedEngine } from "../../support/engines/scripted_engine.ts";
import { seeded } from "../../support/seeded.ts";
import { errorMessage, post } from "../../support/server/http_client.ts";
import {
  type MediaServers,
  PUBLIC,
  startMediaServers,
} from "../../support/server/media_servers.ts";

const A = Uint8Array.from([1, 2, 3, 4]);
const B = Uint8Array.from([250, 0, 9]);
const base64 = (bytes: Uint8Array) => Buffer.from(bytes).toString("base64");
const dataUrl = (bytes: Uint8Array) => `data:image/png;base64,${base64(bytes)}`;

function setUp(options: AppOptions = {}) {
  const engine = new ScriptedEngine({ model: { readsImages: true } });
  return { engine, app: createApp(engine, options) };
}

describe("image_data", () => {
  test.each([
    ["one in base64", { text: "a", image_data: base64(A) }, [[A]]],
    ["a data URL", { text: "a", image_data: dataUrl(A) }, [[A]]],
    ["all of a prompt", { text: "a", image_data: [base64(A), dataUrl(B)] }, [[A, B]]],
    ["one for all of a batch", { text: ["a", "b"], image_data: base64(A) }, [[A], [A]]],
    ["one for each", { text: ["a", "b"], image_data: [base64(A), base64(B)] }, [[A], [B]]],
    [
      "lists and none of a batch",
      { text: ["a", "b", "c"], image_data: [[base64(A), base64(B)], null, []] },
      [[A, B], [], []],
    ],
    ["none", { text: "a", image_data: [] }, [undefined]],
    ["null", { text: "a", image_data: null }, [undefined]],
  ])("%s", async (_, body, images) => {
    const { engine, app } = setUp();
    expect((await post(app, "/generate", body)).status).toBe(200);
    expect(engine.requests.map((request) => request.images)).toEqual(images);
  });

  test("the answers to one prompt share its images", async () => {
    const { engine, app } = setUp();
    await post(app, "/generate", {
      text: "a",
      image_data: base64(A),
      sampling_params: { n: 2 },
    });
    const [first, second] = engine.requests;
    expect(first!.images).toEqual([A]);
    expect(second!.images).toBe(first!.images);
    expect(second!.promptKey).toBe(first!.promptKey);
  });

  test.each([
    ["https://example.com/a.png", "a URL: --allowed-media-domains"],
    ["ftp://example.com/a", "a URL: --allowed-media-domains"],
    ["file:///etc/passwd", "the name of a file: --allowed-local-media-path"],
    ["/etc/photo.PNG", "the name of a file: --allowed-local-media-path"],
    ["photo.webp", "the name of a file: --allowed-local-media-path"],
  ])("%s is refused with the option that would allow it", async (image, reason) => {
    const { engine, app } = setUp();
    const response = await post(app, "/generate", { text: "a", image_data: [base64(A), image] });
    expect(response.status).toBe(400);
    expect(await errorMessage(response)).toMatch(`Cannot use image_data[1], ${reason}`);
    expect(engine.requests).toEqual([]);
  });

  test.each([
    ["not base64!", "image_data must be an image in base64, or a data URL of it"],
    ["AAA", "image_data must be an image in base64"],
    ["AA=A", "image_data must be an image in base64"],
    ["AA==AAAA", "image_data must be an image in base64"],
    ["é===", "image_data must be an image in base64"],
    ["", "image_data must be an image in base64"],
    ["data:image/png,abc", 'image_data must be a data URL with ";base64,"'],
    [7, "image_data must be a string, got 7"],
    [[null], "image_data[0] must be a string, got null"],
    [Array.from({ length: 1025 }, () => "AAAA"), "Cannot read images: there are more than 1024"],
    ["A".repeat(2 ** 24 + 4), "it has a string of more than 16777216"],
  ])("%.40j is refused", async (image_data, message) => {
    const { app } = setUp();
    const response = await post(app, "/generate", { text: "a", image_data });
    expect(response.status).toBe(400);
    expect(await errorMessage(response)).toContain(message);
  });

  test.each([false, true])(
    "too many are counted before one is looked at (batch: %s)",
    async (batch) => {
      let looks = 0;
      const images = new Proxy(new Array<string>(1025).fill("AAAA"), {
        get: (target, name) => {
          if (typeof name === "string" && /^\d/.test(name)) looks += 1;
          return Reflect.get(target, name);
        },
      });
      const fields = new Fields({ image_data: batch ? [images] : images });
      const { model } = new ScriptedEngine({ model: { readsImages: true } });
      const share = new BodyMemory(2 ** 20).of(new Request("http://wisp.test/"));
      const read = readImageData(fields, { count: 1, batch, model, share, media: {} });
      await expect(read).rejects.toThrow("there are more than 1024");
      expect(looks).toBe(0);
    },
  );

  test("a batch has an item for each prompt", async () => {
    const { app } = setUp();
    const body = { text: ["a", "b"], image_data: [base64(A)] };
    expect(await errorMessage(await post(app, "/generate", body))).toBe(
      "image_data must have one item for each of the 2 prompts, got 1",
    );
  });

  test("an engine of text alone refuses them", async () => {
    const response = await post(createApp(new ScriptedEngine()), "/generate", {
      text: "a",
      image_data: base64(A),
    });
    expect(response.status).toBe(400);
    expect(await errorMessage(response)).toBe("Cannot use image_data: the model reads text only");
  });
});

describe("image parts of chats", () => {
  const part = (url: unknown, more: object = {}) => ({
    type: "image_url",
    image_url: { url, ...more },
  });

  test("keep their order, beside texts that stay apart", async () => {
    const { engine, app } = setUp();
    const response = await post(app, "/v1/chat/completions", {
      messages: [
        {
          role: "user",
          content: [
            { type: "text", text: "First. " },
            part(dataUrl(A)),
            part(dataUrl(B), { detail: "low" }),
          ],
        },
        { role: "assistant", content: [{ type: "text", text: "Yes." }] },
        { role: "user", content: [part(dataUrl(A)), { type: "text", text: "Again." }] },
      ],
    });
    expect(response.status).toBe(200);
    const [request] = engine.requests;
    expect(request!.images).toEqual([A, B, A]);
    expect(request!.messages).toEqual([
      {
        role: "user",
        content: [
          { type: "text", text: "First. " },
          { type: "image" },
          { type: "image", detail: "low" },
        ],
      },
      { role: "assistant", content: "Yes." },
      { role: "user", content: [{ type: "image" }, { type: "text", text: "Again." }] },
    ]);
  });

  test.each([
    [part("https://example.com/a.png"), "content[1].image_url.url, a URL: --allowed-media-domains"],
    [part("a.png"), "content[1].image_url.url, the name of a file: --allowed-local-media-path"],
    [part("!"), "content[1].image_url.url must be an image in base64"],
    [part(dataUrl(A), { detail: "most" }), "content[1].image_url.detail must be one of low, high"],
    [part(dataUrl(A), { size: 3 }), "content[1].image_url.size: it is not a known field"],
    [{ type: "image_url" }, "content[1].image_url is missing"],
    [{ type: "video_url", video_url: {} }, 'content[1] of type "video_url": it is not supported'],
  ])("%j is refused", async (wrong, message) => {
    const { app } = setUp();
    const response = await post(app, "/v1/chat/completions", {
      messages: [{ role: "user", content: [{ type: "text", text: "x" }, wrong] }],
    });
    expect(response.status).toBe(400);
    expect(await errorMessage(response)).toContain(message);
  });

  test("of another role than the user are refused, and where a text is only tokenized", async () => {
    const { app } = setUp();
    const messages = (role: string) => [{ role, content: [part(dataUrl(A))] }];
    const chat = await post(app, "/v1/chat/completions", { messages: messages("system") });
    expect(await errorMessage(chat)).toBe(
      "Cannot use messages[0].content[0]: only messages of the role user have images",
    );
    const tokenized = await post(app, "/tokenize", { messages: messages("user") });
    expect(await errorMessage(tokenized)).toContain('of type "image_url": it is not supported');
  });
});

describe("images that requests name", () => {
  let folder: string;
  let servers: MediaServers;
  beforeAll(async () => {
    folder = mkdtempSync(join(tmpdir(), "wisp-named-"));
    writeFileSync(join(folder, "a.png"), A);
    servers = await startMediaServers();
    servers.names.set("good.test", [[PUBLIC]]);
    servers.names.set("here.test", [["127.0.0.1"]]);
    servers.paths.set("/b", (response) => response.end(B));
  });
  afterAll(async () => {
    rmSync(folder, { recursive: true });
    await servers.close();
  });

  const media = () => ({
    readFile: localMedia(folder),
    fetch: servers.fetchFrom(["good.test", "here.test"]),
  });
  const url = (host: string) => `http://${host}:${servers.port}/b`;

  test("are read by permission, beside others and in chats", async () => {
    const { engine, app } = setUp({ media: media() });
    const named = ["a.png", url("good.test"), base64(A), `file://${folder}/a.png`];
    expect((await post(app, "/generate", { text: "a", image_data: named })).status).toBe(200);
    const content = [
      { type: "text", text: "What is it?" },
      { type: "image_url", image_url: { url: url("good.test") } },
    ];
    const messages = [{ role: "user", content }];
    const chat = await post(app, "/v1/chat/completions", { messages });
    expect(chat.status).toBe(200);
    expect(engine.requests.map(({ images }) => images)).toEqual([[A, B, A, A], [B]]);
    expect(servers.reached).toEqual([]);
  });

  test.each<[() => unknown, string]>([
    [() => ["a.png", "b.png"], "Cannot read image_data[1]: it is no file in the folder"],
    [() => "/etc/photo.png", "Cannot read image_data: it is no file in the folder"],
    [
      () => [base64(A), url("evil.test")],
      "Cannot read image_data[1]: its URL has the host evil.test",
    ],
    [() => url("here.test"), "Cannot read image_data: the host here.test stands for an address"],
    [() => `http://good.test/${"a".repeat(9000)}`, "image_data must be a name of up to 4096"],
  ])("that may not be read are refused by number (%#)", async (image_data, message) => {
    const { engine, app } = setUp({ media: media() });
    const response = await post(app, "/generate", { text: "a", image_data: image_data() });
    expect(response.status).toBe(400);
    expect(await errorMessage(response)).toContain(message);
    expect(engine.requests).toEqual([]);
    expect(servers.reached).toEqual([]);
  });

  test("count as memory of their request", async () => {
    servers.paths.set("/long", (response) => response.end(new Uint8Array(2 ** 17)));
    const { app } = setUp({ media: media(), requestMemory: 2 ** 16 });
    const image_data = `http://good.test:${servers.port}/long`;
    const response = await post(app, "/generate", { text: "a", image_data });
    expect(response.status).toBe(413);
  });
});

test("base64 of every length is read as it was written", async () => {
  const random = seeded(3);
  for (let length = 1; length < 100; length++) {
    const bytes = Uint8Array.from({ length }, () => random() * 256);
    expect(await fromBase64(base64(bytes))).toEqual(bytes);
  }
});
