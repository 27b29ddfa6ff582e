/**
 * A kernel's text as the files that it was put together from, and what it was specialised by.
 *
 * @module
 */
import type { Constants } from "../../src/gpu/kernel.ts";

/** Texts of `.wgsl` files by their paths in the repository. */
export type KernelFiles = Readonly<Record<string, string>>;

/** A piece of a kernel's text. */
export interface KernelPart {
  /** Undefined where no file has it: the wrapper put it there. */
  readonly path: string | undefined;
  readonly text: string;
}

/** A constant or a type whose value is not, or need not be, that of its file. */
export interface SetConstant {
  readonly name: string;
  readonly value: string;
  readonly path: string;
  readonly valueInFile: string;
}

/** Begins every line that is not the kernel's. */
export const MARK = "//|";

const DECLARATION = /^(const|alias) (\w+) = ([^;]+);/gm;

/** What a file becomes in a kernel's text: other values may stand at its top-level declarations. */
function patternOf(text: string): RegExp {
  const fixed = text.split(DECLARATION);
  // Between two fixed texts there are three groups: the kind, the name and the value.
  const pattern = fixed.map((piece, i) => {
    if (i % 4 === 0) return piece.replace(/[\\^$.*+?()[\]{}|]/g, "\\$&");
    return i % 4 === 1 ? `${piece} ${fixed[i + 1]} = [^;]+;` : "";
  });
  return new RegExp(`^${pattern.join("")}`, "m");
}

/** The pieces of a text in their order; put together they are the text. */
export function partsOf(code: string, files: KernelFiles): readonly KernelPart[] {
  const found = Object.entries(files)
    .filter(([, text]) => code.includes(text.slice(0, text.indexOf("\n") + 1)))
    .flatMap(([path, text]) => {
      const match = patternOf(text).exec(code);
      return match === null
        ? []
        : [{ path, start: match.index, end: match.index + match[0].length }];
    })
    .sort((a, b) => a.start - b.start);
  const parts: KernelPart[] = [];
  let end = 0;
  for (const { path, ...piece } of found) {
    if (end < piece.start) parts.push({ path: undefined, text: code.slice(end, piece.start) });
    parts.push({ path, text: code.slice(piece.start, piece.end) });
    end = piece.end;
  }
  if (end < code.length) parts.push({ path: undefined, text: code.slice(end) });
  return parts;
}

const valuesOf = (text: string) =>
  new Map(Array.from(text.matchAll(DECLARATION), ([, , name, value]) => [name!, value!]));

/** What the wrapper sets, and whatever else differs from the files. */
export function setConstants(
  parts: readonly KernelPart[],
  files: KernelFiles,
  constants: Constants,
): readonly SetConstant[] {
  return parts.flatMap(({ path, text }) => {
    if (path === undefined) return [];
    const inFile = valuesOf(files[path]!);
    return [...valuesOf(text)]
      .map(([name, value]) => ({ name, value, path, valueInFile: inFile.get(name)! }))
      .filter(({ name, value, valueInFile }) => name in constants || value !== valueInFile);
  });
}

/** The text with a line in front of each piece that says where it comes from. */
export function withBanners(parts: readonly KernelPart[]): string {
  return parts
    .map(({ path = "added by the wrapper", text }) =>
      // Where files are joined, an empty line may stand between them.
      text.trim() === "" ? text : `${MARK} ---- ${path} ----\n${text}`,
    )
    .join("");
}

/** The text that is compiled. */
export function withoutBanners(printed: string): string {
  const lines = printed.split("\n");
  return lines.filter((line) => !line.startsWith(MARK)).join("\n");
}
