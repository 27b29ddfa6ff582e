/**
 * Kernels as the package carries them: WGSL without comments and spare spaces, a declaration a line,
 * with short names for what only a function knows, and for what kernels share and no program names.
 *
 * The engine finds constants, bindings and parameters by their lines, also where texts are joined.
 *
 * @module
 */
import { readdirSync, readFileSync } from "node:fs";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import type { Plugin } from "vite";

/**
 * Takes what only readers need out of a kernel's text. WGSL has no strings that could hold "//".
 *
 * @param names What declarations of all kernels are called instead, as `kernelNames()` finds it.
 */
export function shortenWgsl(whole: string, names: ReadonlyMap<string, string> = new Map()): string {
  if (whole.includes("/*")) throw new Error("Cannot shorten WGSL with a block comment");
  const text = whole
    .replace(/\/\/.*/g, "")
    .replace(NOT_MEMBER, (word: string) => names.get(word) ?? word);
  const declarations: string[] = [];
  let depth = 0;
  for (const line of text.split("\n").map((line) => line.trim())) {
    if (line === "") continue;
    const short = line.replace(SPARE_SPACE, "");
    if (depth > 0) declarations[declarations.length - 1] += short;
    else declarations.push(short);
    for (const sign of line) depth += Number("({[".includes(sign)) - Number(")}]".includes(sign));
  }
  return declarations.map((declaration) => `${shortNames(declaration)}\n`).join("");
}

/** Spaces go beside one sign and in front of "("; between two words, or two other signs, they stay. */
const SPARE_SPACE = /(?<=[\w)\]}]) (?=[^\w\s])|(?<=[^\w\s]) (?=[\w(])|(?<=[,;{(]) | (?=[,;})])/g;

const LOCAL = /\b(?:let|var|const) (\w+)|[(,](?:@builtin\(\w+\))?(\w+):/g;
const WORD = /[A-Za-z_]\w*/g;
const LETTERS = [..."abcdefghijklmnopqrstuvwxyz"];
const SHORT = ["", ...LETTERS].flatMap((second) => LETTERS.map((first) => first + second));

/** A function whose parameters and variables have names that nothing else in it has. */
function shortNames(declaration: string): string {
  if (!declaration.startsWith("fn ")) return declaration;
  const taken = new Set(declaration.match(WORD));
  const locals = new Set([...declaration.matchAll(LOCAL)].map(([, own, given]) => own ?? given!));
  const free = SHORT.filter((name) => !taken.has(name));
  return [...locals].reduce((code, name) => {
    // What is called by the same name is another thing, and so is what is asked of a value.
    const isCalled = new RegExp(`(?<!\\.)\\b${name}\\(`).test(code);
    if (name.length === 1 || isCalled) return code;
    return code.replace(new RegExp(`(?<!\\.)\\b${name}\\b`, "g"), free.shift()!);
  }, declaration);
}

const NOT_MEMBER = /(?<![.\w])[A-Za-z_]\w*/g;
const DECLARED = /^(?:fn|struct|const|alias|var<(?:private|workgroup)>) (\w+)/gm;
const MEMBERS = /^struct \w+ \{([^}]*)\}/gm;

/**
 * Short names for what kernels declare outside of functions, where no member of a struct and no
 * program has the same name: it might be what a program specialises, binds or replaces.
 *
 * @param kernels Texts of all kernels.
 * @param programs Texts of all programs that use them.
 */
export function kernelNames(
  kernels: readonly string[],
  programs: readonly string[],
): ReadonlyMap<string, string> {
  const declared = kernels.flatMap((text) => [...text.matchAll(DECLARED)].map(([, name]) => name!));
  const members = kernels.flatMap((text) => [...text.matchAll(MEMBERS)].map(([, list]) => list!));
  const known = new Set([...programs, ...members].flatMap((text) => text.match(WORD) ?? []));
  const own = [...new Set(declared)].filter((name) => name !== "main" && !known.has(name)).sort();
  return new Map(own.map((name, i) => [name, `_${i.toString(36)}`]));
}

/** Of the kernels in this repository. */
function ownNames(): ReadonlyMap<string, string> {
  const texts = (folder: string, isMeant: (name: string) => boolean) => {
    const path = fileURLToPath(new URL(`../${folder}`, import.meta.url));
    const files = readdirSync(path, { recursive: true, encoding: "utf8" });
    return files.filter(isMeant).map((name) => readFileSync(join(path, name), "utf8"));
  };
  const isProgram = (name: string) => name.endsWith(".ts") && !name.endsWith(".check.ts");
  return kernelNames(
    texts("kernels", (name) => name.endsWith(".wgsl")),
    [...texts("kernels", isProgram), ...texts("src", isProgram)],
  );
}

export function wgslText(): Plugin {
  let names: ReadonlyMap<string, string> | undefined;
  return {
    name: "wgsl-text",
    enforce: "post",
    transform(code, id) {
      if (!id.endsWith(".wgsl?raw")) return null;
      const [begin, end] = [code.indexOf('"'), code.lastIndexOf('"') + 1];
      const text: string = JSON.parse(code.slice(begin, end));
      names ??= ownNames();
      return { code: `export default ${JSON.stringify(shortenWgsl(text, names))};`, map: null };
    },
  };
}
