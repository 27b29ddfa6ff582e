// The HTTP server inside a program of yours, and two requests to it.
// Run it: npm run build && node examples/server/main.ts (Node 22.18 or newer)

import { createApp, Engine } from "wisp-llm";
import { defaultModelPath, deviceFactory, openFolder, serve } from "wisp-llm/node";

// A factory in place of a device is called once the checkpoint is known to be one.
const engine = await Engine.load(await openFolder(defaultModelPath()), { device: deviceFactory() });
const app = createApp(engine, { servedModelName: "tiny" });
// The app is a function of Request: routes of your own may stand beside it.
app.get("/about", (context) => context.text(`${engine.model.architecture}, ready`));

const server = await serve(app, { host: "127.0.0.1", port: 0 });
console.log(await (await fetch(`${server.url}/about`)).text());

function post(path: string, body: unknown): Promise<Response> {
  return fetch(server.url + path, {
    method: "POST",
    headers: { "content-type": "application/json" },
    body: JSON.stringify(body),
  });
}

// Raw text in, raw text out.
const completion = await post("/generate", {
  text: "Once upon a time",
  sampling_params: { temperature: 0, max_new_tokens: 12 },
});
const { text, meta_info } = await completion.json();
console.log(`Once upon a time${text} ... (${meta_info.completion_tokens} tokens)`);

// A chat, streamed as server-sent events.
const stream = await post("/v1/chat/completions", {
  model: "tiny",
  messages: [{ role: "user", content: "What is the capital of Japan?" }],
  temperature: 0,
  stream: true,
});
let pending = "";
for await (const piece of stream.body!.pipeThrough(new TextDecoderStream())) {
  const events = (pending + piece).split("\n\n");
  pending = events.pop()!;
  for (const event of events.filter((line) => line !== "data: [DONE]")) {
    const { choices } = JSON.parse(event.replace("data: ", ""));
    process.stdout.write(choices[0]?.delta.content ?? "");
  }
}
process.stdout.write("\n");

await server.close();
await engine.close();
