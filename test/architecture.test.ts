/**
 * Keeps the source as docs/architecture.md draws it: floors, circles, sizes, names, kernel trios.
 *
 * @module
 */

import { existsSync, readdirSync, readFileSync } from "node:fs";
import { posix } from "node:path";
import { fileURLToPath } from "node:url";
import { describe, expect, test } from "vitest";
import { importCircles } from "./support/import_circles.ts";

const root = fileURLToPath(new URL("..", import.meta.url));

/** From the ground up: a file imports its own folder and lower floors, never up or sideways. */
const FLOORS: readonly (readonly string[])[] = [
  [
    ...["src/chat_message.ts", "src/profile.ts", "src/prefix_cache.ts", "src/logprobs.ts"],
    "src/bootstrap.ts",
    "src/expert_record.ts",
    "src/image_input.ts",
    "src/ranks_status.ts",
    "src/constraint.ts",
    "src/request_limits.ts",
    "src/speculation_figures.ts",
    "src/turns.ts",
  ],
  ["src/errors.ts", "src/dtype.ts", "src/extremes.ts", "src/sampling_params.ts"],
  ["src/generation.ts"],
  ["src/gpu/"],
  ["kernels/", "src/text/", "src/images/", "src/http/", "src/parallel/"],
  ["src/cache/", "src/checkpoint/", "src/grammar/"],
  ["src/layers/"],
  ["src/models/", "src/speculation/"],
  ["src/engine/"],
  ["src/server/", "src/client/", "src/disaggregation/", "src/simulate/"],
  ["src/router/", "src/openai/"],
  ["src/node/", "src/browser/", "src/ai/", "src/prompt_api/", "src/index.ts"],
];

/** Imports that the floors would allow and that are wrong all the same. */
const FORBIDDEN: readonly { readonly from: readonly string[]; readonly to: readonly string[] }[] = [
  {
    from: [
      "src/text/",
      "src/images/",
      "src/http/",
      "src/grammar/",
      "src/parallel/",
      "src/speculation/",
    ],
    to: ["src/gpu/", "kernels/"],
  },
  {
    from: ["src/server/", "src/client/", "src/router/"],
    to: ["src/gpu/", "kernels/", "src/cache/", "src/layers/", "src/models/", "src/engine/"],
  },
];

/** Fields in braces of their own, only to have several of them on one line. */
const CROWDED_LINES = /\.\.\.\{/;

/** Names that users of the library know. */
const LIBRARY_NAMES = ["MemoryPlan", "StartPlan", "memoryPlan", "onPlan"];

/**
 * Words that names in src no longer have, as docs/architecture.md gives them one meaning: each with
 * the names that have that meaning, and what is said instead of the others.
 */
const RETIRED: readonly {
  readonly words: string;
  readonly instead: string;
  readonly keeps?: readonly string[];
}[] = [
  { words: "plan", instead: "sizes", keeps: ["plan", "Plan", "PlanTensors", ...LIBRARY_NAMES] },
  { words: "planned", instead: "reserved" },
  { words: "step pipeline", instead: "steps in flight" },
  { words: "step sizes", instead: "batch limits" },
  { words: "serving load", instead: "traffic" },
  { words: "run load", instead: "run traffic" },
  { words: "load backend", instead: "traffic backend" },
];

const NODE_ONLY = /^(node:|webgpu$|koffi$|ws$|sharp$|@hono\/node-server)/;
const NODE_GLOBALS = /\b(process|Buffer|__dirname|require)\b\s*[.(]/;
const BROWSER_GLOBALS = /\b(window|document|navigator|localStorage)\b\s*\./;
const LINES = { ".ts": 400, ".wgsl": 200 } as const;
/** Beside each other in a folder, as many as one looks through. */
const MOST_FILES = 20;
const VAGUE_NAMES = /^(utils?|helpers?|common|types|misc|constants)\./;
const UNFINISHED = new RegExp(["TO" + "DO", "FIX" + "ME", "XX" + "X"].join("|"));

const SPECIFIERS: readonly RegExp[] = [
  /^\s*(?:import|export)\b[^"';]*\bfrom\s*"([^"\n]+)"/gm,
  /^\s*import\s*"([^"\n]+)"/gm,
  /\bimport\s*\(\s*"([^"\n]+)"/g,
  /\bnew\s+URL\(\s*"([^"]+)"\s*,\s*import\.meta\.url/g,
];

interface SourceFile {
  readonly path: string;
  readonly text: string;
  /** The text without comments. */
  readonly code: string;
}

function filesOf(folder: string, endings: readonly string[]): SourceFile[] {
  return (
    readdirSync(posix.join(root, folder), { recursive: true, encoding: "utf8" })
      .filter((name) => endings.some((ending) => name.endsWith(ending)))
      // The peers that benches compare with are installed beside them.
      .filter((name) => !name.includes("node_modules"))
      .sort()
      .map((name) => {
        const path = posix.join(folder, name);
        const text = readFileSync(posix.join(root, path), "utf8");
        return { path, text, code: withoutComments(text) };
      })
  );
}

function withoutComments(text: string): string {
  return text.replace(/\/\*[\s\S]*?\*\//g, "").replace(/(^|\s)\/\/.*$/gm, "$1");
}

const product = [...filesOf("src", [".ts"]), ...filesOf("kernels", [".ts"])];
const shaders = filesOf("kernels", [".wgsl"]);
const tests = [...filesOf("test", [".ts"]), ...filesOf("bench", [".ts"])];
const manifest = JSON.parse(readFileSync(posix.join(root, "package.json"), "utf8")) as {
  readonly dependencies: Readonly<Record<string, string>>;
  readonly optionalDependencies: Readonly<Record<string, string>>;
  readonly peerDependencies: Readonly<Record<string, string>>;
};

/** The folder or file of `FLOORS` that a path belongs to. */
function place(path: string): string | undefined {
  return FLOORS.flat().find((home) => (home.endsWith("/") ? path.startsWith(home) : path === home));
}

function floor(path: string): number {
  const home = place(path);
  return FLOORS.findIndex((homes) => home !== undefined && homes.includes(home));
}

function imports({ path, code }: SourceFile): string[] {
  return SPECIFIERS.flatMap((pattern) => [...code.matchAll(pattern)])
    .map((match) => match[1]!.replace(/\?.*$/, ""))
    .map((name) => (name.startsWith(".") ? posix.join(posix.dirname(path), name) : name));
}

const isOurs = (name: string) => name.startsWith("src/") || name.startsWith("kernels/");

/** One line for each thing that is wrong. */
function violations(
  files: readonly SourceFile[],
  check: (file: SourceFile) => readonly string[],
): string[] {
  return files.flatMap((file) => check(file).map((problem) => `${file.path}: ${problem}`));
}

describe("floors", () => {
  test("docs/architecture.md draws them", () => {
    const page = readFileSync(posix.join(root, "docs/architecture.md"), "utf8");
    const rows = [...page.matchAll(/^\| (\d+) \| (`.*?`) \| .+ \|$/gm)];
    const drawn = rows.map(([, number, cell]) => ({
      number: Number(number),
      homes: [...cell!.matchAll(/`([^`]+)`/g)].map(([, home]) => home!),
    }));
    const wanted = FLOORS.map((homes, number) => ({
      number,
      homes: homes.map((home) => home.replace(/\/$/, "")).sort(),
    }));
    const sorted = drawn.map(({ number, homes }) => ({ number, homes: homes.sort() }));
    expect(sorted).toEqual(wanted.reverse());
  });

  test("every floor is there", () => {
    expect(FLOORS.flat().filter((home) => !existsSync(posix.join(root, home)))).toEqual([]);
  });

  test("every file has a place", () => {
    const strays = product.filter(({ path }) => floor(path) < 0 && !path.endsWith(".d.ts"));
    expect(strays.map(({ path }) => path)).toEqual([]);
  });

  test("a file imports its own folder and lower floors only", () => {
    const wrong = violations(product, (file) =>
      imports(file)
        .filter((name) => isOurs(name))
        .filter((name) => place(name) !== place(file.path) && floor(name) >= floor(file.path)),
    );
    expect(wrong).toEqual([]);
  });

  test.each(FORBIDDEN)("$from never import $to", ({ from, to }) => {
    const inside = product.filter(({ path }) => from.some((home) => path.startsWith(home)));
    const wrong = violations(inside, (file) =>
      imports(file).filter((name) => to.some((home) => name.startsWith(home))),
    );
    expect(wrong).toEqual([]);
  });

  test("no files import each other in a circle, be it for types or to start a worker", () => {
    const files = [...product, ...tests];
    expect(importCircles(new Map(files.map((file) => [file.path, imports(file)])))).toEqual([]);
  });

  test("the checker finds a circle, and says how it goes", () => {
    const planted = { "a.ts": ["b.ts", "d.ts"], "b.ts": ["c.ts"], "c.ts": ["d.ts", "b.ts"] };
    expect(importCircles(new Map(Object.entries(planted)))).toEqual(["b.ts > c.ts > b.ts"]);
    expect(importCircles(new Map([["own.ts", ["own.ts"]]]))).toEqual(["own.ts > own.ts"]);
  });

  test("the checker sees every form of import", () => {
    const code = `
      import { a } from "../gpu/a.ts";
      import type { F } from "./f.ts";
      import "./b.ts";
      const c = await import("./c.ts");
      new Worker(new URL("./d.ts", import.meta.url));
      export * from "../e.wgsl?raw";`;
    const names = imports({ path: "src/node/x.ts", text: code, code });
    expect(names.sort()).toEqual([
      "src/e.wgsl",
      "src/gpu/a.ts",
      "src/node/b.ts",
      "src/node/c.ts",
      "src/node/d.ts",
      "src/node/f.ts",
    ]);
  });
});

describe("platforms", () => {
  const core = product.filter(({ path }) => !path.startsWith("src/node/"));

  test("only src/node imports what needs Node", () => {
    const wrong = violations(core, (file) => imports(file).filter((name) => NODE_ONLY.test(name)));
    expect(wrong).toEqual([]);
  });

  test("only src/node uses Node's globals, only src/browser a page's", () => {
    const node = violations(core, ({ code }) => NODE_GLOBALS.exec(code) ?? []);
    const outside = product.filter(({ path }) => !path.startsWith("src/browser/"));
    const browser = violations(outside, ({ code }) => BROWSER_GLOBALS.exec(code) ?? []);
    expect([...node, ...browser]).toEqual([]);
  });

  test("the product imports declared dependencies only", () => {
    const { dependencies, optionalDependencies, peerDependencies } = manifest;
    const declared = Object.keys({
      ...dependencies,
      ...optionalDependencies,
      ...peerDependencies,
    });
    const wrong = violations(product, (file) =>
      imports(file)
        .filter((name) => !isOurs(name) && !name.startsWith("node:"))
        .filter(
          (name) => !declared.some((known) => name === known || name.startsWith(`${known}/`)),
        ),
    );
    expect(wrong).toEqual([]);
  });
});

describe("files", () => {
  const all = [...product, ...shaders, ...tests];

  test.each(Object.entries(LINES))("no %s file has more than %i lines", (ending, most) => {
    const long = all
      .filter(({ path }) => path.endsWith(ending))
      .map(({ path, text }) => ({ path, lines: text.split("\n").length - 1 }))
      .filter(({ lines }) => lines > most);
    expect(long).toEqual([]);
  });

  test(`no folder has more than ${MOST_FILES} files beside each other`, () => {
    const folders = new Map<string, number>();
    for (const { path } of all) {
      const folder = posix.dirname(path);
      folders.set(folder, (folders.get(folder) ?? 0) + 1);
    }
    expect([...folders].filter(([, files]) => files > MOST_FILES)).toEqual([]);
  });

  test("names are snake_case and say something", () => {
    const wrong = all
      .map(({ path }) => path)
      .filter((path) => {
        const name = posix.basename(path);
        return !/^[a-z0-9_]+(\.[a-z0-9_]+)*$/.test(name) || VAGUE_NAMES.test(name);
      });
    expect(wrong).toEqual([]);
  });

  test("nothing is left unfinished in a comment", () => {
    expect(violations(all, ({ text }) => UNFINISHED.exec(text) ?? [])).toEqual([]);
  });

  test("tests wait for what happens, as long as they have themselves", () => {
    const own = /\bvi\.wait(For|Until)\(|\bexpect\.poll\(|\bsetDefault(Navigation)?Timeout\([^0]/;
    const others = tests.filter(
      ({ path }) => path.startsWith("test/") && !path.endsWith("/until.ts"),
    );
    expect(violations(others, ({ code }) => own.exec(code)?.slice(0, 1) ?? [])).toEqual([]);
  });

  test("fields stand on lines of their own, not in a spread of a literal", () => {
    expect(violations(product, ({ code }) => CROWDED_LINES.exec(code) ?? [])).toEqual([]);
  });

  test("exports have names", () => {
    const files = product.filter(({ path }) => !/\.(check|d)\.ts$/.test(path));
    expect(violations(files, ({ code }) => /\bexport default\b/.exec(code) ?? [])).toEqual([]);
  });

  test("every file of the product starts with what it is", () => {
    const files = product.filter(({ path }) => path.startsWith("src/") && !path.endsWith(".d.ts"));
    const silent = files.filter(({ text }) => !/^(#!.*\n)?\/\*\*[\s\S]*?@module/.test(text));
    expect(silent.map(({ path }) => path)).toEqual([]);
  });
});

describe("words", () => {
  test("no name in src has a word that was retired", () => {
    const files = product.filter(({ path }) => path.startsWith("src/"));
    expect(violations(files, ({ path, code }) => retiredNames(path, code))).toEqual([]);
  });

  test("the checker sees every form of a name", () => {
    const code = "const loadPlan = LOAD_PLAN(plan, explanation);";
    expect(retiredNames("src/engine/step/step_pipeline.ts", code)).toEqual([
      "step_pipeline: say steps in flight",
      "loadPlan: say sizes",
      "LOAD_PLAN: say sizes",
    ]);
  });

  test("docs/architecture.md says each of them", () => {
    const page = readFileSync(posix.join(root, "docs/architecture.md"), "utf8");
    const words = page.slice(page.indexOf("## Words"));
    for (const word of ["plan", "step", "load", "traffic", "reserved"]) {
      expect(words).toMatch(new RegExp(`^\\| ${word} \\|`, "m"));
    }
  });
});

/** Each name of a file's path and code that has retired words. */
function retiredNames(path: string, code: string): string[] {
  const names = new Set(`${path} ${code}`.match(/\w+/g));
  return [...names].flatMap((name) => {
    const spelled = ` ${name.replace(/([a-z0-9])(?=[A-Z])/g, "$1 ").replaceAll("_", " ")} `;
    return RETIRED.filter(({ words, keeps = [] }) => {
      return spelled.toLowerCase().includes(` ${words} `) && !keeps.includes(name);
    }).map(({ instead }) => `${name}: say ${instead}`);
  });
}

describe("kernels", () => {
  const kernels = shaders.filter(({ path }) => !path.startsWith("kernels/common/"));

  test("every kernel has a wrapper and a check", () => {
    const paths = new Set(product.map(({ path }) => path));
    const missing = kernels
      .flatMap(({ path }) => [".ts", ".check.ts"].map((ending) => path.replace(".wgsl", ending)))
      .filter((path) => !paths.has(path));
    expect(missing).toEqual([]);
  });

  test("every variable of a function has an initial value", () => {
    expect(violations(shaders, ({ code }) => uninitialised(code))).toEqual([]);
  });
});

/**
 * Declarations like `var x: f32;` inside a function. WGSL makes them zero, but drivers have been
 * seen to keep the value of the previous round of a loop.
 */
function uninitialised(code: string): string[] {
  let depth = 0;
  const found: string[] = [];
  for (const [token] of code.matchAll(/[{}]|\bvar\s+\w+\s*:[^;={]*;/g)) {
    if (token === "{") depth += 1;
    else if (token === "}") depth -= 1;
    else if (depth > 0) found.push(token);
  }
  return found;
}
