/**
 * Kernels as the package carries them: WGSL without comments, indents and empty lines, and functions
 * without spaces and with short names for what only they know.
 *
 * Other declarations keep their lines and their spaces, also where texts are joined, because the
 * engine finds constants, bindings and parameters by them.
 *
 * @module
 */
import type { Plugin } from "vite";

/** Takes what only readers need out of a kernel's text. WGSL has no strings that could hold "//". */
export function shortenWgsl(text: string): string {
  if (text.includes("/*")) throw new Error("Cannot shorten WGSL with a block comment");
  const declarations: string[] = [];
  let depth = 0;
  let isFunction = false;
  for (const line of text.split("\n").map((line) => line.replace(/\/\/.*/, "").trim())) {
    if (line === "") continue;
    const goesOn = depth > 0 && isFunction;
    if (depth === 0) isFunction = line.startsWith("fn ");
    const short = isFunction ? withoutSpaces(line) : line;
    if (goesOn) declarations[declarations.length - 1] += short;
    else declarations.push(short);
    for (const sign of line) depth += Number("({[".includes(sign)) - Number(")}]".includes(sign));
  }
  return declarations.map((declaration) => `${shortNames(declaration)}\n`).join("");
}

/** Spaces go beside one sign; between two words, or two signs, they stay. */
const SPARE_SPACE = /(?<=[\w)\]}]) (?=[^\w\s])|(?<=[^\w\s]) (?=\w)|(?<=[,;{(]) | (?=[,;})])/g;

function withoutSpaces(line: string): string {
  return line.replace(SPARE_SPACE, "");
}

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

export function wgslText(): Plugin {
  return {
    name: "wgsl-text",
    enforce: "post",
    transform(code, id) {
      if (!id.endsWith(".wgsl?raw")) return null;
      const [begin, end] = [code.indexOf('"'), code.lastIndexOf('"') + 1];
      const text: string = JSON.parse(code.slice(begin, end));
      return { code: `export default ${JSON.stringify(shortenWgsl(text))};`, map: null };
    },
  };
}
