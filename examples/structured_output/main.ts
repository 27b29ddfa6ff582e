// Answers of a given form: a JSON schema, a regular expression, a grammar; and a grammar on its own.
// Run it: npm run build && node examples/structured_output/main.ts (Node 22.18 or newer)

import { compileGrammar, Engine, GrammarError } from "wisp-llm";
import { defaultModelPath, openDevice, openFolder } from "wisp-llm/node";

const { device } = await openDevice();
const engine = await Engine.load(await openFolder(defaultModelPath()), { device });
const messages = [{ role: "user", content: "What is the weather in Paris?" }];

async function answer(sampling: object): Promise<string> {
  let whole = "";
  for await (const { text } of engine.generate({ messages, sampling })) whole += text;
  return whole;
}

// A schema: the answer is JSON that fits it, however hot the sampling.
const jsonSchema = {
  type: "object",
  properties: {
    city: { enum: ["Paris", "Rome", "Oslo"] },
    celsius: { type: "integer", minimum: -40, maximum: 50 },
    sky: { type: "string", maxLength: 12 },
  },
  required: ["city", "celsius", "sky"],
  additionalProperties: false,
};
const report = JSON.parse(await answer({ jsonSchema, temperature: 1.5, seed: 1 }));
console.log(`${report.city}: ${report.celsius} degrees, sky of ${typeof report.sky}`);

// A regular expression, and a grammar in EBNF.
console.log(await answer({ regex: "(sunny|cloudy|rainy), [0-9]{1,2} degrees", seed: 2 }));
console.log(await answer({ ebnf: 'root ::= place ("; " place){2}\nplace ::= [A-Z] [a-z]{2,8}' }));

// What cannot be enforced exactly is refused before anything is generated.
try {
  await answer({ regex: "(yes|no), \\1" });
} catch (error) {
  if (!(error instanceof GrammarError)) throw error;
  console.log(error.message);
}
await engine.close();

// A grammar needs no engine.
const date = compileGrammar({ jsonSchema: { type: "string", format: "date" } });
console.log(date.accepts('"2024-02-29"'), date.accepts('"2023-02-29"'));
