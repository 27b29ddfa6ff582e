/** Programs that have the package installed. */
import { spawnSync } from "node:child_process";
import { mkdirSync, symlinkSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { afterAll, beforeAll, expect, test } from "vitest";
import { program, scratch, stopAll } from "./support/wisp.ts";

const root = fileURLToPath(new URL("../..", import.meta.url));
let consumer: string;

const PROGRAM = `
import type OpenAI from "openai";
import { createApp, type Engine, type GenerationEngine, type WeightSource } from "wisp-llm";
import { openDevice as openInBrowser } from "wisp-llm/browser";
import { openDevice, openFolder, serve } from "wisp-llm/node";
import { languageModelOf } from "wisp-llm/prompt-api";

export async function interfaces(engine: Engine): Promise<void> {
  const messages = [{ role: "user" as const, content: "Hi" }];
  const answer: OpenAI.ChatCompletion = await engine.chat.completions.create({ messages });
  const session = await languageModelOf(engine).create();
  console.log(answer.id, await session.prompt("Hi"));
}

export async function main(engine: GenerationEngine): Promise<void> {
  const source: WeightSource = await openFolder("model");
  const { device, adapter } = await openDevice({ adapter: "auto" });
  const devices: readonly GPUDevice[] = [device, await openInBrowser()];
  const server = await serve(createApp(engine), { host: "127.0.0.1", port: 0 });
  for await (const { text } of engine.generate({ prompt: source.name })) {
    console.log(text satisfies string, adapter.isCpu, devices.length, server.url);
  }
}
`;

/** Token 0 ends a text, the others are the single bytes. */
const GRAMMAR_PROGRAM = `
import { workerGrammarService } from "wisp-llm/node";

process.on("worker", () => console.log("a thread"));
const tokens = { size: 256, bytes: (id) => Uint8Array.of(id), isSpecial: () => false };
const service = workerGrammarService({ tokens, endTokens: [0], vocabularySize: 256 });
const session = await service.open({ kind: "regex", source: "[bc]a" });
for (const next of [[], [98, 97]]) {
  const { mask } = await session.advance(next);
  console.log([...Array(256).keys()].filter((id) => (mask[id >>> 5] >>> id) & 1));
}
`;

/** One model behind three interfaces, greedily. */
const INTERFACES_PROGRAM = `
import { Engine } from "wisp-llm";
import { createWisp } from "wisp-llm/ai";
import { defaultModelPath, openDevice, openFolder } from "wisp-llm/node";
import { languageModelOf } from "wisp-llm/prompt-api";

const { device } = await openDevice();
const source = await openFolder(defaultModelPath());
const engine = await Engine.load(source, { device, contextLength: 512 });
const text = "What is 17 + 25?";
const messages = [{ role: "user", content: text }];
const { choices } = await engine.chat.completions.create({ messages, temperature: 0 });
const prompt = [{ role: "user", content: [{ type: "text", text }] }];
const { content } = await createWisp(engine)().doGenerate({ prompt, temperature: 0 });
const LanguageModel = languageModelOf(engine);
const session = await LanguageModel.create({ samplingMode: "most-predictable" });
console.log(choices[0].message.content);
console.log(content.at(-1).text);
console.log(await session.prompt(text));
await engine.close();
`;

const tsc = join(root, "node_modules", "typescript", "bin", "tsc");

beforeAll(() => {
  consumer = scratch("consumer");
  writeFileSync(join(consumer, "package.json"), '{ "type": "module" }');
  writeFileSync(join(consumer, "main.ts"), PROGRAM);
  // What a consumer has of its own.
  mkdirSync(join(consumer, "node_modules"));
  for (const name of ["@types", "openai"]) {
    symlinkSync(join(root, "node_modules", name), join(consumer, "node_modules", name));
  }
});

afterAll(stopAll);

test.each(["nodenext", "bundler"])(
  "a strict consumer compiles with module resolution %s",
  (kind) => {
    const compilerOptions = {
      strict: true,
      exactOptionalPropertyTypes: true,
      noUncheckedIndexedAccess: true,
      skipLibCheck: false,
      noEmit: true,
      target: "es2022",
      module: kind === "bundler" ? "esnext" : kind,
      moduleResolution: kind,
      lib: ["es2023", "dom", "dom.iterable", "dom.asynciterable"],
      types: ["node"],
    };
    const config = join(consumer, `tsconfig.${kind}.json`);
    writeFileSync(config, JSON.stringify({ compilerOptions, files: ["main.ts"] }));
    const { status, stdout } = spawnSync(process.execPath, [tsc, "-p", config], {
      cwd: consumer,
      encoding: "utf8",
    });
    expect([status, stdout]).toEqual([0, ""]);
  },
);

test("the package follows grammars in a thread, which keeps no process alive", async () => {
  expect(await program(GRAMMAR_PROGRAM)).toEqual({
    code: 0,
    stdout: "a thread\n[ 98, 99 ]\n[ 0 ]\n",
    stderr: "",
  });
});

test("an engine answers OpenAI's shape, the ai SDK and the Prompt API alike", async () => {
  const { code, stdout } = await program(INTERFACES_PROGRAM);
  expect(code).toBe(0);
  const said = stdout.trim().split("\n");
  expect(said[0]).toContain("42");
  expect(said).toEqual(Array(3).fill(said[0]));
});
