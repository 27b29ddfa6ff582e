/** The installed server reads texts in threads beside the one that steps. */
import { cpSync, readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { afterAll, expect, test } from "vitest";
import { scratch, serveWisp, shipped, stopAll } from "./support/wisp.ts";

afterAll(stopAll);

/** The embedded model with a pattern that takes twice as long with every letter a. */
function hostileModel(): string {
  const folder = join(scratch("hostile"), "model");
  const examples = join(shipped(), "node_modules", "wisp-llm", "examples");
  cpSync(join(examples, "tiny-deepseek-v3"), folder, { recursive: true });
  const file = join(folder, "tokenizer.json");
  const json = JSON.parse(readFileSync(file, "utf8"));
  const pattern = { Regex: "(a+)+$" };
  const split = { type: "Split", pattern, behavior: "Isolated", invert: false };
  json.pre_tokenizer = { type: "Sequence", pretokenizers: [split, json.pre_tokenizer] };
  writeFileSync(file, JSON.stringify(json));
  return folder;
}

test("a pattern without end in a checkpoint holds up no other request, and no later one", async () => {
  const server = await serveWisp(["--model-path", hostileModel()]);
  const endless = server.post("/tokenize", { prompt: `${"a".repeat(60)}!` });
  // While that is read, the engine steps.
  const sampling_params = { max_new_tokens: 4, ignore_eos: true };
  const generated = await server.post("/generate", { input_ids: [5, 6], sampling_params });
  expect(generated.status).toBe(200);
  const refused = await endless;
  expect(refused.status).toBe(400);
  expect(await refused.text()).toContain("Cannot tokenize the text: it took longer than 2 s");
  const next = await server.post("/v1/completions", { prompt: "Hello", max_tokens: 1 });
  expect(next.status).toBe(200);
  await server.stop();
});
