/**
 * What of the built package a page or its bundler has to take, in bytes.
 *
 * @module
 */
import { spawnSync } from "node:child_process";
import { mkdtempSync, readdirSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join, posix } from "node:path";
import { fileURLToPath } from "node:url";
import { gzipSync } from "node:zlib";
import { build, type InlineConfig, type Rolldown } from "vite";
import { afterAll, beforeAll, expect, test } from "vitest";
import { wgslText } from "../packaging/wgsl_text.ts";
import { installPackage } from "./support/package/installed_package.ts";

const root = fileURLToPath(new URL("..", import.meta.url));
const folder = mkdtempSync(join(tmpdir(), "wisp-sizes-"));
const dist = join(folder, "node_modules", "wisp-llm", "dist");
const sizes: Record<string, number> = {};

const text = (file: string) => readFileSync(join(dist, file), "utf8");
const gzipped = (code: string) => gzipSync(code, { level: 9 }).length;

/** What Vite makes of a program, whose lazily loaded parts are left out. */
async function bundled(program: string, options: InlineConfig["build"] = {}): Promise<string> {
  const entry = join(folder, "program.js");
  writeFileSync(entry, program);
  const built = await build({
    root: folder,
    configFile: false,
    logLevel: "error",
    plugins: [wgslText()],
    build: {
      ...options,
      write: false,
      target: "es2022",
      lib: { entry, formats: ["es"] },
      rolldownOptions: {
        ...options.rolldownOptions,
        output: { minify: { compress: true, mangle: true, codegen: true } },
      },
    },
  });
  const [{ output }] = built as [Rolldown.RolldownOutput];
  const chunks = new Map(
    output.flatMap((chunk) => (chunk.type === "chunk" ? [[chunk.fileName, chunk] as const] : [])),
  );
  const taken = new Set([output[0].fileName]);
  // What is left outside is no chunk.
  for (const name of taken) for (const other of chunks.get(name)?.imports ?? []) taken.add(other);
  return [...taken].map((name) => chunks.get(name)?.code ?? "").join("\n");
}

/** The entry of a program that uses just this export of the package. */
const using = (name: string, entry = "wisp-llm") =>
  bundled(`import { ${name} } from "${join(dist, entry)}"; globalThis.used = ${name};`);

beforeAll(() => installPackage(folder));

afterAll(() => {
  const rows = Object.entries(sizes).map(([what, size]) => `${what}: ${(size / 1000).toFixed(1)}`);
  console.log(`kB, gzipped\n${rows.join("\n")}`);
  rmSync(folder, { recursive: true });
});

/** Files that one imports, itself among them. */
function withImports(file: string, found = new Set<string>()): ReadonlySet<string> {
  if (found.has(file)) return found;
  found.add(file);
  for (const name of imports(file)) withImports(posix.join(posix.dirname(file), name), found);
  return found;
}

const imports = (file: string) =>
  [...text(file).matchAll(/(?:^|;)(?:import|export)\b[^"`';]*["`'](\.[^"`']+)/gm)].map(
    ([, from]) => from!,
  );

test.each([
  ["index.js", 439_500],
  ["engine.js", 356_900],
  ["browser.js", 34_450],
  ["server.js", 129_900],
  ["ai.js", 3_630],
  ["prompt_api.js", 4_270],
  ["browser_worker.js", 376_000],
  ["browser_grammar_worker.js", 91_200],
  ["browser_image_worker.js", 8_700],
  ["browser_service_worker.js", 68_100],
])("%s and what it imports are at most %i bytes, gzipped", (file, limit) => {
  sizes[file] = [...withImports(file)].reduce((sum, name) => sum + gzipped(text(name)), 0);
  expect(sizes[file]).toBeLessThan(limit);
});

test("the server's page is at most 138,100 bytes, gzipped, in four files", () => {
  const names = readdirSync(join(dist, "web_page"), { recursive: true, withFileTypes: true });
  const files = names.filter((entry) => entry.isFile());
  const page = files.map(({ parentPath, name }) => readFileSync(join(parentPath, name), "utf8"));
  sizes["the server's page"] = page.reduce((sum, code) => sum + gzipped(code), 0);
  expect(files).toHaveLength(4);
  expect(sizes["the server's page"]).toBeLessThan(138_100);
  expect(page.join("")).not.toContain("@compute");
});

test("entries import nothing but what they share; workers nothing at all", () => {
  const others = /^(index|engine|server|browser|ai|prompt_api|shared\/[\w-]+)\.js$/;
  for (const entry of ["index.js", "browser.js", "engine.js", "ai.js", "prompt_api.js"]) {
    expect([...withImports(entry)].filter((name) => !others.test(name))).toEqual([]);
  }
  // A bundler that takes an engine leaves the server to be loaded when it is asked for.
  for (const entry of ["engine.js", "browser.js", "ai.js", "prompt_api.js"]) {
    expect(withImports(entry)).not.toContain("server.js");
  }
  const workers = readdirSync(dist).filter((name) => /^browser_\w*worker\.js$/.test(name));
  for (const file of workers) expect(imports(file), file).toEqual([]);
  expect(workers).toHaveLength(4);
  expect(() => new Function(text("browser_service_worker.js"))).not.toThrow();
});

test.each([
  ["EngineError", 6_000],
  ["compileGrammar", 90_600],
  ["createApp", 64_000],
])("a bundler that takes %s leaves the engine out", async (name, limit) => {
  const code = await using(name, "index.js");
  sizes[`only ${name}`] = gzipped(code);
  expect(code).not.toContain("@compute");
  expect(sizes[`only ${name}`]).toBeLessThan(limit);
});

test("the engine without tokenizers, templates and grammars is less than 217,650 bytes", async () => {
  const source = join(root, "src/engine/engine.ts");
  const isText = (id: string) => /\/(text|grammar)\/|^@huggingface\/|^gpt-tokenizer\//.test(id);
  const rolldownOptions = { external: isText };
  const code = await bundled(`import { Engine } from "${source}"; globalThis.used = Engine;`, {
    rolldownOptions,
  });
  expect(code).toContain("@compute");
  sizes["only Engine, without text and grammars"] = gzipped(code);
  const whole = await using("Engine", "index.js");
  sizes["only Engine"] = gzipped(whole);
  // Its chats come when they are asked for.
  expect(whole.includes("/v1/chat/completions")).toBe(false);
  expect(sizes["only Engine, without text and grammars"]).toBeLessThan(218_300);
});

test("docs/browser.md says how large they are", () => {
  const page = readFileSync(join(root, "docs/browser.md"), "utf8");
  const told = [...page.matchAll(/(?<![\d.])(\d+) kB/g)].map(([, size]) => 1000 * Number(size));
  const measured = [
    sizes["browser.js"]!,
    ...[sizes["browser_worker.js"]!, sizes["browser_grammar_worker.js"]!, sizes["index.js"]!],
    ...[sizes["only Engine"]!, sizes["only Engine, without text and grammars"]!],
    ...[sizes["only compileGrammar"]!, sizes["only createApp"]!],
  ];
  expect(told).toHaveLength(measured.length);
  const wrong = told.filter((size, i) => Math.abs(size - measured[i]!) > 0.05 * measured[i]!);
  expect(wrong).toEqual([]);
});

test("npm packs what is built, and nothing else", () => {
  const args = ["pack", "--dry-run", "--json", "--ignore-scripts"];
  const options = { cwd: join(dist, ".."), encoding: "utf8", timeout: 60_000 } as const;
  const { stdout, stderr } = spawnSync("npm", args, options);
  // A list of packages, or one by its name: npm's versions differ.
  const packed = Object.values(JSON.parse(stdout || stderr))[0] as { files: { path: string }[] };
  const paths = packed.files.map(({ path }) => path);
  const expected =
    /^(package\.json|dist\/THIRD_PARTY_LICENSES|dist\/.*\.js(\.map)?|dist\/web_page\/.*\.(html|css)|dist\/types\/.*\.d\.ts)$/;
  expect(paths.filter((path) => !expected.test(path))).toEqual([]);
  expect(paths.filter((path) => /^dist\/tokenizers\/.*\.map$/.test(path))).toEqual([]);
  expect(paths).toContain("dist/browser_service_worker.js");
});

test("names what it has inside, with their licences", () => {
  const notices = text("THIRD_PARTY_LICENSES");
  for (const name of ["hono", "@huggingface/jinja", "@huggingface/tokenizers", "gpt-tokenizer"]) {
    expect(notices).toMatch(new RegExp(`^${name} \\d`, "m"));
  }
  expect(notices).toContain("Permission is hereby granted");
});
