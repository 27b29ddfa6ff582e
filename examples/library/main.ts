// The engine in a program of yours: one answer, several at once, a prefix they share, and one that
// is given up.
// Run it: npm run build && node examples/library/main.ts (Node 22.18 or newer)

import { Engine } from "wisp-llm";
import { defaultModelPath, openDevice, openFolder } from "wisp-llm/node";

const { device, adapter } = await openDevice();
const engine = await Engine.load(await openFolder(defaultModelPath()), { device });
console.log(`${engine.model.architecture} on ${adapter.name}`);

const chat = (content: string) => [{ role: "user", content }];
const greedy = { temperature: 0 };

// One answer, written as it comes.
const messages = chat("What is the capital of Japan?");
for await (const { text } of engine.generate({ messages, sampling: greedy })) {
  process.stdout.write(text);
}
process.stdout.write("\n");

// Several at once: they are decoded together, and each gets the answer that it would get alone.
async function answer(question: string): Promise<string> {
  let whole = "";
  for await (const { text, finish } of engine.generate({
    messages: chat(question),
    sampling: { ...greedy, maxNewTokens: 64 },
  })) {
    whole += text;
    if (finish?.type === "length") whole += " ...";
  }
  return whole;
}
const questions = ["What is the capital of France?", "What is 12 + 35?", "Tell me a story."];
const answers = await Promise.all(questions.map(answer));
for (const [i, question] of questions.entries()) console.log(`${question}\n  ${answers[i]}`);

// A shared prefix: what the requests have in common is computed for the first one, and cached.
const rules = "Answer in one sentence. ".repeat(8);
for (const question of questions) {
  const sampling = { ...greedy, maxNewTokens: 1 };
  const asked = { messages: chat(`${rules}${question}`), sampling };
  for await (const { finish, promptTokens, cachedTokens } of engine.generate(asked)) {
    if (finish !== null)
      console.log(`${cachedTokens} of ${promptTokens} prompt tokens were cached`);
  }
}

// Given up: the signal frees the request's part of the cache at once, as leaving the loop does.
const controller = new AbortController();
const endless = {
  messages: chat("Tell me a story."),
  sampling: { maxNewTokens: 1000, ignoreEos: true },
  signal: controller.signal,
};
try {
  for await (const { completionTokens } of engine.generate(endless)) {
    if (completionTokens === 8) controller.abort();
  }
} catch (error) {
  if (!controller.signal.aborted) throw error;
  console.log(`Aborted: ${engine.status().usedTokens} tokens are held`);
}

await engine.close();
