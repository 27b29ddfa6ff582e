/**
 * What of the built package a page or its bundler has to take, in bytes.
 *
 * @module
 */
import { spawnSync } from "node:child_process";
import { mkdtempSync, readdirSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
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

/** The entry that Vite makes of a program, whose lazily loaded parts are left out. */
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
  return output[0].code;
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

test.each([
  ["index.js", 359_500],
  ["browser.js", 30_000],
  ["shared.js", 9_200],
  ["browser_worker.js", 313_000],
  ["index.js", 354_500],
  ["browser.js", 30_000],
  ["shared.js", 9_200],
  ["browser_worker.js", 308_400],
  ["browser_grammar_worker.js", 66_000],
  ["index.js", 351_500],
  ["browser.js", 30_000],
  ["shared.js", 9_200],
  ["browser_worker.js", 305_000],
  ["browser_grammar_worker.js", 69_200],
  ["browser_service_worker.js", 65_500],
])("%s is at most %i bytes, gzipped", (file, limit) => {
  sizes[file] = gzipped(text(file));
  expect(sizes[file]).toBeLessThan(limit);
});

test("the server's page is at most 115,000 bytes, gzipped, in four files", () => {
  const names = readdirSync(join(dist, "web_page"), { recursive: true, withFileTypes: true });
  const files = names.filter((entry) => entry.isFile());
  const page = files.map(({ parentPath, name }) => readFileSync(join(parentPath, name), "utf8"));
  sizes["the server's page"] = page.reduce((sum, code) => sum + gzipped(code), 0);
  expect(files).toHaveLength(4);
  expect(sizes["the server's page"]).toBeLessThan(115_000);
  expect(page.join("")).not.toContain("@compute");
});

test("entries import nothing but what they share; workers nothing at all", () => {
  const imports = (file: string) =>
    [...text(file).matchAll(/^import\b[^"`']*["`']([^"`']+)/gm)].map(([, from]) => from);
  for (const entry of ["index.js", "browser.js"]) expect(imports(entry)).toEqual(["./shared.js"]);
  const workers = readdirSync(dist).filter((name) => /^browser_\w*worker\.js$/.test(name));
  for (const file of ["shared.js", ...workers]) expect(imports(file), file).toEqual([]);
  expect(workers).toHaveLength(3);
  expect(() => new Function(text("browser_service_worker.js"))).not.toThrow();
});

test.each([
  ["EngineError", 6_000],
  ["compileGrammar", 69_000],
  ["createApp", 64_000],
])("a bundler that takes %s leaves the engine out", async (name, limit) => {
  const code = await using(name, "index.js");
  sizes[`only ${name}`] = gzipped(code);
  expect(code).not.toContain("@compute");
  expect(sizes[`only ${name}`]).toBeLessThan(limit);
});

test("the engine without tokenizers, templates and grammars is less than 186,600 bytes", async () => {
  const source = join(root, "src/engine/engine.ts");
  const isText = (id: string) => /\/(text|grammar)\/|^@huggingface\/|^gpt-tokenizer\//.test(id);
  const rolldownOptions = { external: isText };
  const code = await bundled(`import { Engine } from "${source}"; globalThis.used = Engine;`, {
    rolldownOptions,
  });
  expect(code).toContain("@compute");
  sizes["only Engine, without text and grammars"] = gzipped(code);
  sizes["only Engine"] = gzipped(await using("Engine", "index.js"));
  expect(sizes["only Engine, without text and grammars"]).toBeLessThan(186_600);
});

test("docs/browser.md says how large they are", () => {
  const page = readFileSync(join(root, "docs/browser.md"), "utf8");
  const told = [...page.matchAll(/(?<![\d.])(\d+) kB/g)].map(([, size]) => 1000 * Number(size));
  const measured = [
    sizes["browser.js"]! + sizes["shared.js"]!,
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
