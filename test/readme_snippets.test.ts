/**
 * Commands and code of README and the pages it leads to: commands parse, JSON is JSON, code
 * type-checks. test/examples.gpu.test.ts runs the code that is for Node.
 */
import { spawnSync } from "node:child_process";
import { existsSync, mkdirSync, readdirSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { afterAll, beforeAll, expect, test } from "vitest";
import { chooseTuning } from "../kernels/print/named_tuning.ts";
import { KERNEL_CHECKS, readQuestion } from "../kernels/print/print_kernel.ts";
import manifest from "../package.json" with { type: "json" };
import { runCommand } from "../src/node/command.ts";
import { readOptions } from "../src/node/options/config_file.ts";
import { LAUNCH_OPTIONS } from "../src/node/options/options.ts";
import { ENDPOINT_PATHS } from "../src/server/routes/endpoint_paths.ts";
import { DOCUMENTS, type Document, proseOf, snippetsOf } from "./support/package/documents.ts";

const root = fileURLToPath(new URL("..", import.meta.url));
const folder = join(root, ".cache", `snippets-${process.pid}`);

beforeAll(() => mkdirSync(folder, { recursive: true }));

afterAll(() => rmSync(folder, { recursive: true, force: true }));

const withLanguage = (language: string) =>
  DOCUMENTS.flatMap((page) =>
    snippetsOf(page)
      .filter((snippet) => snippet.language === language)
      .map(({ code }, i) => ({ name: `${page.path} ${i + 1}`, page, code })),
  );

/** Words of one command line, without quotes; what stands behind " #" is left out. */
function wordsOf(line: string): string[] {
  const words = line.match(/(?:[^\s"']|"[^"]*"|'[^']*')+/g) ?? [];
  const end = words.findIndex((word) => word.startsWith("#"));
  return words
    .slice(0, end < 0 ? undefined : end)
    .map((word) => word.replaceAll(/^(["'])(.*)\1$/gs, "$2"));
}

/** Command lines of a text in the shell's language, in order. */
function commandsOf(code: string): string[][] {
  const lines = code.replaceAll("\\\n", " ").split("\n");
  return lines
    .flatMap((line) => line.split(" && "))
    .map(wordsOf)
    .filter((words) => words.length > 0);
}

/** Command lines of a page, those in its sentences too. */
function allCommands(page: Document): string[][] {
  const blocks = snippetsOf(page).filter(({ language }) => language === "sh");
  const spans = [...proseOf(page).matchAll(/`((?:[A-Z_]+=\S+ )*(?:wisp|npm) [^`]*)`/g)];
  const texts = [...blocks.map(({ code }) => code), ...spans.map(([, span]) => span!)];
  return texts.flatMap(commandsOf);
}

const filesOf = (path: string) =>
  readdirSync(join(root, path), { recursive: true, encoding: "utf8" });
const files = ["test", "bench"].flatMap((path) => filesOf(path).map((name) => `${path}/${name}`));

/** @returns What is wrong with an npm command. */
function npmProblem([verb = "", ...rest]: readonly string[]): string | undefined {
  if (verb === "ci" || verb === "pack") return;
  const [script, ...more] = verb === "run" ? rest : [verb, ...rest];
  if (!Object.hasOwn(manifest.scripts, script!)) return `there is no script ${script}`;
  const [dashes, filter] = more;
  if (dashes === undefined) return;
  if (dashes !== "--") return `${dashes} does not reach the script`;
  if (script === "kernel") return kernelProblem(more.slice(1));
  const isFound =
    script === "bench:peers"
      ? existsSync(join(root, "bench", "peers", `${filter}.ts`))
      : filter?.startsWith("-") || files.some((path) => path.includes(filter!));
  return isFound ? undefined : `${filter} is no file`;
}

/** @returns What is wrong with what a kernel is asked for. */
function kernelProblem(words: readonly string[]): string | undefined {
  const { name, case: index = "0", tuning } = readQuestion(words)!;
  const check = KERNEL_CHECKS.get(name);
  const shape = check?.cases[Number(index)];
  const isFound = shape !== undefined && chooseTuning(check!, shape, tuning) !== undefined;
  return isFound ? undefined : `${words.join(" ")} names no text`;
}

/** @returns What the program says against a command line. */
async function wispProblem(words: readonly string[]): Promise<string | undefined> {
  let said = "";
  const stdout = { write: () => true };
  const stderr = { write: (text: string) => (said += text) };
  const code = await runCommand([...words, "--help"], { stdout, stderr } as never);
  return code === 0 ? undefined : said;
}

/** @returns What is wrong with a request. */
function curlProblem(words: readonly string[]): string | undefined {
  const { pathname } = new URL(words.find((word) => word.startsWith("http"))!);
  if (!ENDPOINT_PATHS.some((path) => path === pathname)) return `there is no endpoint ${pathname}`;
  const body = words[words.indexOf("-d") + 1];
  if (words.includes("-d")) JSON.parse(body!);
  return;
}

/** @returns What is wrong with the files of this repository that a command of containers names. */
function deployProblem(words: readonly string[]): string | undefined {
  const after = (flag: string) =>
    words.includes(flag) ? words[words.indexOf(flag) + 1] : undefined;
  const [file, overlay, target] = ["--file", "--kustomize", "--target"].map(after);
  for (const path of [file, overlay && `${overlay}/kustomization.yaml`]) {
    if (path !== undefined && !existsSync(join(root, path))) return `there is no ${path}`;
  }
  if (file === undefined || target === undefined) return;
  const isStage = readFileSync(join(root, file), "utf8").includes(` AS ${target}\n`);
  return isStage ? undefined : `${file} has no stage ${target}`;
}

async function problem(command: readonly string[]): Promise<string | undefined> {
  const [program, ...words] = command.slice(command.findIndex((word) => !/^[A-Z_]+=/.test(word)));
  if (program === "npm") {
    if (words[0] === "start" && words[1] === "--") {
      return wispProblem(["launch_server", ...words.slice(2)]);
    }
    return npmProblem(words);
  }
  if (program === "wisp") return wispProblem(words);
  // Launchers of ranks, whose own options end where the program begins.
  if (program === "mpiexec" || program === "srun") {
    return wispProblem(words.slice(words.indexOf("wisp") + 1));
  }
  if (program === "curl") return curlProblem(words);
  if (program === "docker" || program === "kubectl") return deployProblem(words);
  if (program === "node")
    return existsSync(join(root, words[0]!)) ? undefined : "there is no such file";
  return "no test knows this program";
}

async function problems(page: Document): Promise<readonly string[]> {
  const all = await Promise.all(
    allCommands(page).map(async (command) => ({ command, why: await problem(command) })),
  );
  return all
    .filter(({ why }) => why !== undefined)
    .map(({ command, why }) => `${command.join(" ")}: ${why}`);
}

test.each(DOCUMENTS.map((page) => [page.path, page] as const))(
  "commands of %s parse",
  async (_, page) => {
    expect(await problems(page)).toEqual([]);
  },
);

test("the pages have commands, and wrong ones are found", async () => {
  expect(DOCUMENTS.flatMap(allCommands).length).toBeGreaterThan(60);
  const text = [
    "```sh",
    "wisp serve DIR --no-such-option   # a comment",
    "npm run no_such_script && npm run bench -- bench/no_such.bench",
    "curl http://127.0.0.1:30000/no_such_path",
    "rm FILE",
    "```",
    "and `wisp no_such_command`.",
  ].join("\n");
  expect(await problems({ path: "page.md", text })).toHaveLength(6);
});

test("snippets are commands, JSON or code", () => {
  const known = ["sh", "json", "js"];
  const others = DOCUMENTS.flatMap(snippetsOf).filter(({ language }) => !known.includes(language));
  expect(others).toEqual([]);
});

test("JSON is a file of options that the server takes", async () => {
  const path = join(folder, "config.json");
  for (const { code } of withLanguage("json")) {
    writeFileSync(path, code);
    const { values } = await readOptions(LAUNCH_OPTIONS, ["--config", path]);
    expect(values).toMatchObject({ port: 8000, enableMetrics: true });
  }
});

test("code type-checks", () => {
  const snippets = withLanguage("js");
  expect(snippets.length).toBeGreaterThan(5);
  for (const { name, code } of snippets) {
    writeFileSync(join(folder, `${name.replaceAll(/\W/g, "_")}.ts`), `${code}export {};\n`);
  }
  const compilerOptions = { noUnusedLocals: false };
  const config = { extends: "../../tsconfig.json", compilerOptions, include: ["*.ts"] };
  writeFileSync(join(folder, "tsconfig.json"), JSON.stringify(config));
  const compiler = join(root, "node_modules", "typescript", "bin", "tsc");
  const { status, stdout } = spawnSync(process.execPath, [compiler, "-p", folder], {
    encoding: "utf8",
  });
  expect(stdout).toBe("");
  expect(status).toBe(0);
});
