/**
 * The built package in other runtimes than Node: those of test/bundlers, which are installed apart
 * (`npm run test:bundlers`).
 *
 * @module
 */
import { spawnSync } from "node:child_process";
import { existsSync, mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { afterAll, beforeAll, expect, test } from "vitest";
import { installPackage } from "./support/package/installed_package.ts";

const bin = fileURLToPath(new URL("bundlers/node_modules/.bin/", import.meta.url));
const folder = mkdtempSync(join(tmpdir(), "wisp-runtimes-"));
const areInstalled = existsSync(bin);
const NEIGHBOURS = ["@hono", "@huggingface", "@noble", "gpt-tokenizer", "hono", "webgpu"];

const PROGRAM = `
import { compileGrammar, EngineError } from "wisp-llm";
import { urlSource } from "wisp-llm/browser";
const grammar = compileGrammar({ regex: "[bc]a" });
const accepted = ["ba", "ca", "aa"].filter((text) => grammar.accepts(text));
const error = await urlSource("http://127.0.0.1:9/").catch((reason) => reason);
console.log(JSON.stringify([accepted, error instanceof EngineError]));
`;

beforeAll(async () => {
  if (!areInstalled) return;
  await installPackage(folder, NEIGHBOURS);
  writeFileSync(join(folder, "program.js"), PROGRAM);
}, 120_000);

afterAll(() => rmSync(folder, { recursive: true, force: true }));

test.for([
  ["bun", []],
  ["deno", ["run", "--allow-all", "--node-modules-dir=manual"]],
] as const)("%s runs the package's entries", ([name, args], context) => {
  if (!areInstalled) return context.skip("npm run test:bundlers installs the runtimes");
  const options = { cwd: folder, encoding: "utf8", timeout: 60_000 } as const;
  const { stdout, stderr } = spawnSync(join(bin, name), [...args, "program.js"], options);
  expect(stdout, stderr).toBe('[["ba","ca"],true]\n');
});
