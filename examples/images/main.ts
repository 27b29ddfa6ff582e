// Images in a chat: a picture from a file, the same one in the next turn, and pixels that the program
// draws itself.
// Run it: npm run build && node examples/images/main.ts [FOLDER OF A MODEL] (Node 22.18 or newer)
//
// The model beside this file is SmolVLM's architecture in 0.8 MB with random weights: it reads pictures
// as the published ones do, and its words mean nothing. For words that do, give the folder of one:
// npx wisp download HuggingFaceTB/SmolVLM-256M-Instruct

import { readFileSync } from "node:fs";
import { fileURLToPath } from "node:url";
import { type ChatMessage, Engine } from "wisp-llm";
import { openDevice, openFolder } from "wisp-llm/node";

const besides = (name: string) => fileURLToPath(new URL(name, import.meta.url));
const { device, adapter } = await openDevice();
const model = await openFolder(process.argv[2] ?? besides("mini-smolvlm"));
const engine = await Engine.load(model, { device });
console.log(`${engine.model.architecture} on ${adapter.name}`);

const photo = readFileSync(besides("photo.png"));
// A red disc on white.
const side = 96;
const disc = { width: side, height: side, data: new Uint8ClampedArray(4 * side * side).fill(255) };
for (let pixel = 0; pixel < side * side; pixel++) {
  const [x, y] = [(pixel % side) - side / 2, Math.floor(pixel / side) - side / 2];
  if (x * x + y * y < 900) disc.data.fill(0, 4 * pixel + 1, 4 * pixel + 3);
}

const asked = (text: string): ChatMessage => ({
  role: "user",
  content: [{ type: "image" }, { type: "text", text }],
});

async function answer(
  messages: readonly ChatMessage[],
  images: readonly (Uint8Array | typeof disc)[],
) {
  let whole = "";
  const sampling = { temperature: 0, maxNewTokens: 24 };
  for await (const chunk of engine.generate({ messages, images, sampling })) {
    whole += chunk.text;
    if (chunk.finish === null) continue;
    const { promptTokens, imageTokens, cachedTokens } = chunk;
    console.log(
      `${imageTokens} of ${promptTokens} prompt tokens are images', ${cachedTokens} were cached`,
    );
  }
  return whole;
}

const first = asked("What is on this picture?");
const said = await answer([first], [photo]);
console.log(JSON.stringify(said));

// The next turn repeats the picture: its rows are in the prefix cache.
const turns = [first, { role: "assistant", content: said } as const, asked("And on this one?")];
console.log(JSON.stringify(await answer(turns, [photo, disc])));

await engine.close();
