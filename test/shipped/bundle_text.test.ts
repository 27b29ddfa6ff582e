/** The text of the built files: each kind names only what its platform has. */
import { readdirSync, readFileSync } from "node:fs";
import { join } from "node:path";
import { transformWithOxc } from "vite";
import { expect, test } from "vitest";
import { shipped } from "./support/wisp.ts";

const BROWSERS = ["document", "window", "localStorage", "sessionStorage", "location", "alert"];
const NODES = ["process", "Buffer", "require", "module", "__dirname", "__filename", "global"];
/** The browser's entry for programs in Node that import it and use parts of it. */
const BROWSER_IN_NODE = "node_browser.js";

const dist = () => join(shipped(), "node_modules", "wisp-llm", "dist");

function builtFiles(): readonly string[] {
  const entries = readdirSync(dist()).filter((name) => name.endsWith(".js"));
  const folders = ["chunks", "tokenizers"].flatMap((folder) =>
    readdirSync(join(dist(), folder)).map((name) => join(folder, name)),
  );
  return [...entries, ...folders.filter((name) => name.endsWith(".js"))];
}

const isOfNode = (file: string) =>
  /^(chunks\/|node|wisp|command|grammar_worker|image_worker|text_worker|rank_process|rank_thread)/.test(
    file,
  ) && file !== BROWSER_IN_NODE;
const isOfBrowser = (file: string) => !isOfNode(file) && file !== BROWSER_IN_NODE;

/** Which of these names a program takes from its surroundings: those that it does not declare. */
async function freeNames(code: string, names: readonly string[]): Promise<readonly string[]> {
  const marked = (name: string) => `__free_${name}__`;
  const define = Object.fromEntries(names.map((name) => [name, marked(name)]));
  const { code: text } = await transformWithOxc(code, "file.js", { define });
  return names.filter((name) => text.includes(marked(name)));
}

test("the marks of free names are found, and of declared ones not", async () => {
  const code = "const window = 1; export const f = (location) => [document, window, location];";
  expect(await freeNames(code, BROWSERS)).toEqual(["document"]);
});

test("Node's files name no browser's globals and none of the bundler's helpers", async () => {
  const files = builtFiles().filter(isOfNode);
  expect(files.length).toBeGreaterThan(5);
  for (const file of files) {
    const code = readFileSync(join(dist(), file), "utf8");
    expect(await freeNames(code, BROWSERS), file).toEqual([]);
    expect(code, file).not.toMatch(/__vite|import\.meta\.env/);
  }
});

test("Node's files read the environment", () => {
  const texts = builtFiles().filter(isOfNode);
  const code = texts.map((file) => readFileSync(join(dist(), file), "utf8")).join("");
  const names = ["WISP_ADAPTER", "XDG_CACHE_HOME", "LP_NUM_THREADS", "OPENAI_API_KEY"];
  for (const name of names) expect(code).toContain(`process.env.${name}`);
});

test("browsers' files name no global of Node and import none of its modules", async () => {
  const files = builtFiles().filter(isOfBrowser);
  expect(files).toEqual(expect.arrayContaining(["index.js", "browser.js", "browser_worker.js"]));
  for (const file of files) {
    const code = readFileSync(join(dist(), file), "utf8");
    expect(await freeNames(code, NODES), file).toEqual([]);
    expect(code, file).not.toMatch(/["'`]node:/);
  }
});
