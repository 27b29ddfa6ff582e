/**
 * Runs the examples, and the programs of README and docs, in processes of their own, against the
 * built package.
 *
 * @module
 */
import { spawn } from "node:child_process";
import { cpSync, mkdirSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { transformWithOxc } from "vite";
import { afterAll, beforeAll, expect, test } from "vitest";
import { builtPackage } from "./support/package/built_package.ts";
import { DOCUMENTS, runsInNode, snippetsOf } from "./support/package/documents.ts";

const root = fileURLToPath(new URL("..", import.meta.url));
const read = (path: string) => readFileSync(join(root, path), "utf8");

/** Milliseconds after which an example is ended. SwiftShader takes 10,000 to 20,000. */
const TIMEOUT = 100_000;

/** Inside the project, so that the package's dependencies are found as if they were installed. */
const consumer = join(root, ".cache", `examples-${process.pid}`);
const installed = join(consumer, "node_modules", "wisp-llm");

beforeAll(async () => {
  mkdirSync(installed, { recursive: true });
  writeFileSync(join(consumer, "package.json"), '{ "type": "module" }');
  for (const path of ["package.json", "examples/tiny-deepseek-v3"]) {
    cpSync(join(root, path), join(installed, path), { recursive: true });
  }
  cpSync(await builtPackage(), join(installed, "dist"), { recursive: true });
});

afterAll(() => rmSync(consumer, { recursive: true, force: true }));

interface Ended {
  readonly status: number | null;
  readonly output: string;
  /** What it and the driver wrote to the error stream. */
  readonly errors: string;
}

/** Runs TypeScript as a module of the consumer, until it ends by itself. */
async function run(name: string, source: string): Promise<Ended> {
  const path = join(consumer, `${name}.js`);
  const { code } = await transformWithOxc(source, `${name}.ts`);
  writeFileSync(path, code);
  const child = spawn(process.execPath, [path], { cwd: consumer, timeout: TIMEOUT });
  let output = "";
  let errors = "";
  child.stdout.setEncoding("utf8").on("data", (text: string) => (output += text));
  child.stderr.setEncoding("utf8").on("data", (text: string) => (errors += text));
  const status = await new Promise<number | null>((resolve) => child.once("close", resolve));
  return { status, output, errors };
}

/** Programs of README and docs, and what they print. */
const PROGRAMS: Readonly<Record<string, RegExp>> = {
  "README.md 1": /Tokyo/,
  "docs/library.md 2": /Tokyo/,
  "docs/library.md 3": /Tokyo/,
  "docs/library.md 4": /^ http:\/\/127\.0\.0\.1:\d+$/m,
  "docs/library.md 5": /./,
  "docs/library.md 6": /Tokyo/,
  "docs/operation.md 1": /attention\/mla_decode/,
  "docs/speculation.md 1": /Tokyo/,
  "docs/structured-output.md 1": /^true$/m,
};

/** It tries every form of the kernels, which takes minutes. */
const TUNES = "docs/operation.md 2";

const programs = new Map<string, string>(
  DOCUMENTS.flatMap((page) =>
    snippetsOf(page)
      .filter(runsInNode)
      .map(({ code }, i) => [`${page.path} ${i + 1}`, code] as const),
  ).filter(([, code], i, all) => all.findIndex(([, other]) => other === code) === i),
);

test("every program of README and docs for Node runs here", () => {
  expect([...programs.keys()].sort()).toEqual([...Object.keys(PROGRAMS), TUNES].sort());
});

test.each(Object.entries(PROGRAMS))(
  "the program of %s runs and ends by itself",
  async (name, printed) => {
    const { status, output, errors } = await run(name.replaceAll(/\W/g, "_"), programs.get(name)!);
    expect(status, errors).toBe(0);
    expect(output).toMatch(printed);
  },
);

test("examples/library answers one, several, some with a shared prefix, and an aborted request", async () => {
  const { status, output, errors } = await run("library", read("examples/library/main.ts"));
  expect(status, errors).toBe(0);
  expect(output).toMatch(/^DeepseekV3ForCausalLM on .+\nThe capital of Japan is Tokyo\.\n/);
  expect(output).toContain("What is the capital of France?\n  The capital of France is Paris.\n");
  expect(output).toContain("What is 12 + 35?\n");
  const cached = [...output.matchAll(/^(\d+) of (\d+) prompt tokens were cached$/gm)].map(
    ([, found, all]) => Number(found) / Number(all),
  );
  expect(cached).toHaveLength(3);
  expect(Math.min(...cached.slice(1))).toBeGreaterThan(0.7);
  expect(output).toMatch(/\nAborted: 0 tokens are held\n$/);
});

test("examples/structured_output gets answers of the forms it asks for", async () => {
  const source = read("examples/structured_output/main.ts");
  const { status, output, errors } = await run("structured_output", source);
  expect(status, errors).toBe(0);
  const [report, weather, places, refusal, dates, ...rest] = output.split("\n");
  expect(report).toMatch(/^(Paris|Rome|Oslo): -?\d{1,2} degrees, sky of string$/);
  expect(weather).toMatch(/^(sunny|cloudy|rainy), \d{1,2} degrees$/);
  expect(places).toMatch(/^[A-Z][a-z]{2,8}(; [A-Z][a-z]{2,8}){2}$/);
  expect(refusal).toContain("backreference");
  expect(dates).toBe("true false");
  expect(rest).toEqual([""]);
});

test("examples/tool_calling calls what the model asks for, and ends with its answer", async () => {
  const { status, output, errors } = await run("tools", read("examples/tool_calling/main.ts"));
  expect(status, errors).toBe(0);
  expect(output.split("\n")).toEqual([
    'get_weather({"city": "Paris", "unit": "celsius"}) is {"temperature": 21, "condition": "sunny"}',
    "It is 21 degrees celsius and sunny in Paris.",
    "",
  ]);
});

test("examples/images shows a model pictures, and the first again in the next turn", async () => {
  for (const name of ["mini-smolvlm", "photo.png"]) {
    cpSync(join(root, "examples/images", name), join(consumer, name), { recursive: true });
  }
  const { status, output, errors } = await run("images", read("examples/images/main.ts"));
  expect(status, errors).toBe(0);
  const [about, one, said, both, next, ...rest] = output.split("\n");
  expect(about).toMatch(/^Idefics3ForConditionalGeneration on .+/);
  const told = /^(\d+) of (\d+) prompt tokens are images', (\d+) were cached$/;
  const [images, prompt, cached] = told.exec(one!)!.slice(1).map(Number);
  const [imagesThen, , cachedThen] = told.exec(both!)!.slice(1).map(Number);
  expect([cached, prompt! > images!]).toEqual([0, true]);
  expect(imagesThen).toBeGreaterThan(images!);
  // The picture and the question, and what was answered.
  expect(cachedThen).toBeGreaterThanOrEqual(prompt!);
  // Of random weights, but always the same.
  for (const text of [said, next]) expect(JSON.parse(text!).length).toBeGreaterThan(0);
  expect(rest).toEqual([""]);
}, 120_000);

test("examples/server answers /generate and a streamed chat", async () => {
  const { status, output, errors } = await run("server", read("examples/server/main.ts"));
  expect(status, errors).toBe(0);
  const [about, story, chat, ...rest] = output.split("\n");
  expect(about).toBe("DeepseekV3ForCausalLM, ready");
  expect(story).toMatch(/^Once upon a time.+ \(12 tokens\)$/);
  expect(chat).toBe("The capital of Japan is Tokyo.");
  expect(rest).toEqual([""]);
});
