/**
 * Kernels as the package carries them: WGSL without comments, spare spaces and zeros, a declaration
 * a line, with short names for what no program looks up; and all of them in one place, where what
 * they repeat compresses.
 *
 * The engine finds constants, bindings and parameters by their lines, also where texts are joined,
 * and numbers the bindings.
 *
 * @module
 */
import { readdirSync, readFileSync } from "node:fs";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import type { Plugin } from "vite";
import { type KernelNames, kernelNames, rename } from "./wgsl_names.ts";

/**
 * Takes what only readers need out of the texts of all kernels.
 *
 * @param programs Texts of all programs that use them.
 */
export function shortenKernels(
  kernels: readonly string[],
  programs: readonly string[],
): readonly string[] {
  const texts = kernels.map(declarations);
  const names = kernelNames(texts.flat(), programs);
  return texts.map((text) => shortText(text, names));
}

const shortText = (text: readonly string[], names: KernelNames) =>
  text.map((declaration) => `${rename(declaration, names).replace(NUMBER, "")}\n`).join("");

/** Spaces go beside one sign and in front of "("; between two words, or two other signs, they stay. */
const SPARE_SPACE = /(?<=[\w)\]}]) (?=[^\w\s])|(?<=[^\w\s]) (?=[\w(])|(?<=[,;{(]) | (?=[,;})])/g;

/** Zeros after a point, in front of one, and at the start of a hexadecimal number. */
const SPARE_ZERO = /(?<=\d\.)0(?![\w.])|(?<![\w.])0(?=\.\d*[1-9])|(?<=\b0x)0+(?=[\da-f])/g;

/** Bindings are numbered in their order. */
const NUMBER = /^@group\(0\)@binding\(\d+\)/;

/** A text's declarations, a line each. WGSL has no strings that could hold "//". */
function declarations(text: string): readonly string[] {
  if (text.includes("/*")) throw new Error("Cannot shorten WGSL with a block comment");
  const found: string[] = [];
  let depth = 0;
  for (const line of text.split("\n").map((line) => line.replace(/\/\/.*/, "").trim())) {
    if (line === "") continue;
    const short = line.replace(SPARE_SPACE, "").replace(SPARE_ZERO, "");
    if (depth > 0) found[found.length - 1] += short;
    else found.push(short);
    for (const sign of line) depth += Number("({[".includes(sign)) - Number(")}]".includes(sign));
  }
  return found;
}

const FOLDER = fileURLToPath(new URL("../kernels", import.meta.url));
/** The module that has all kernels, each by a name that says its place among them. */
const MODULE = "\0kernels";

/** Paths of files with kernels and of those that use them, the same every time. */
function pathsOf(isMeant: (name: string) => boolean): readonly string[] {
  const names = readdirSync(FOLDER, { recursive: true, encoding: "utf8" });
  return names
    .filter(isMeant)
    .sort()
    .map((name) => join(FOLDER, name));
}

/** The module's text, which bundlers take single kernels of. */
function kernelModule(paths: readonly string[]): string {
  const isProgram = (name: string) => name.endsWith(".ts") && !name.endsWith(".check.ts");
  const programs = pathsOf(isProgram);
  const read = (path: string) => readFileSync(path, "utf8");
  return shortenKernels(paths.map(read), programs.map(read))
    .map((text, i) => `export const kernel${i} = ${JSON.stringify(text)};\n`)
    .join("");
}

/**
 * Without the names of bindings and params that wrappers list for TypeScript: the texts declare them
 * again, and that both agree is tested where the lists are.
 */
export function unlisted(code: string): string {
  return code.replace(/\b(\w*(?:buffers|params))(:| =) \[[\w\s",.]*"[\w\s",.]*\]/gi, "$1$2 []");
}

export function wgslText(): Plugin {
  const paths = pathsOf((name) => name.endsWith(".wgsl"));
  let module: string | undefined;
  return {
    name: "wgsl-text",
    enforce: "post",
    resolveId: (id) => (id === MODULE ? id : null),
    load(id) {
      if (id !== MODULE) return null;
      module ??= kernelModule(paths);
      return { code: module, map: null };
    },
    transform(code, id) {
      if (id.startsWith(FOLDER) && id.endsWith(".ts")) return { code: unlisted(code), map: null };
      if (!id.endsWith(".wgsl?raw")) return null;
      const place = paths.indexOf(id.slice(0, -"?raw".length));
      if (place < 0) throw new Error(`${id} is not among the kernels`);
      return { code: `export { kernel${place} as default } from "${MODULE}";`, map: null };
    },
  };
}
