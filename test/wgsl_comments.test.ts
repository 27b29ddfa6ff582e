/** The one form of comments in WGSL, as docs/kernels.md has it. */
import { readdirSync, readFileSync } from "node:fs";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { expect, test } from "vitest";

const folder = fileURLToPath(new URL("../kernels", import.meta.url));
const files = readdirSync(folder, { recursive: true, encoding: "utf8" })
  .filter((name) => name.endsWith(".wgsl"))
  .sort()
  .map((name) => ({ name, text: readFileSync(join(folder, name), "utf8") }));

const isComment = (line: string | undefined) => line?.trimStart().startsWith("//") === true;

/** What is wrong with the comments of a file, which has the name of its kernel if it is one. */
function faults(name: string, text: string): readonly string[] {
  const lines = text.split("\n");
  return [...signFaults(lines), ...headerFaults(name, lines), ...sentenceFaults(lines)];
}

/** Comments have lines of their own, which begin with two slashes and a space. */
function signFaults(lines: readonly string[]): readonly string[] {
  return lines.flatMap((line, i) => {
    const wrong = isComment(line) ? !/^\s*\/\/( \s*\S|$)/.test(line) : /\/\/|\/\*/.test(line);
    return wrong ? [`line ${i + 1} is no comment of two slashes alone: ${line.trim()}`] : [];
  });
}

/** A file begins with what it is; a kernel's header begins with its name, and has all bindings. */
function headerFaults(name: string, lines: readonly string[]): readonly string[] {
  const end = lines.findIndex((line) => !isComment(line));
  const header = lines.slice(0, end).join("\n");
  const found: string[] = [];
  if (end === 0) found.push("has no header");
  if (lines[end] !== "") found.push("has no empty line behind its header");
  if (!lines.some((line) => line.startsWith("@compute"))) return found;
  const kernel = name.replace(/^.*\/|\.wgsl$/g, "");
  if (!header.startsWith(`// ${kernel}: `)) found.push(`its header does not begin with ${kernel}:`);
  for (const line of lines) {
    const buffer = /^@group.* var<storage, \w+> (\w+):/.exec(line)?.[1];
    if (buffer !== undefined && !new RegExp(`^//   .*\\b${buffer}\\b`, "m").test(header)) {
      found.push(`its header has no line of the binding ${buffer}`);
    }
  }
  return found;
}

/** Behind the header each comment is a sentence or several, in front of what it is about. */
function sentenceFaults(lines: readonly string[]): readonly string[] {
  const header = lines.findIndex((line) => !isComment(line));
  return lines.flatMap((line, i) => {
    if (i < header || !isComment(line)) return [];
    const says = line.trim().slice(3);
    const begins = isComment(lines[i - 1]) || /^([A-Z0-9(`]|\w+: )/.test(says);
    const isLast = !isComment(lines[i + 1]);
    const ends = !isLast || /[.:]$/.test(says);
    const stands = !isLast || lines[i + 1]!.trim() !== "";
    return begins && ends && stands
      ? []
      : [`line ${i + 1} is no sentence of what follows: ${says}`];
  });
}

test.each(files)("comments of $name have one form", ({ name, text }) => {
  expect(faults(name, text)).toEqual([]);
});

test("headers tell files apart", () => {
  const first = files.map(({ text }) => text.slice(0, text.indexOf("\n")));
  expect(files.length).toBeGreaterThan(100);
  expect(first.filter((line, i) => first.indexOf(line) !== i)).toEqual([]);
});

test.each([
  ["/// Twice x.\nfn twice() {}", "no comment of two slashes alone: /// Twice x."],
  ["const A = 1u; // one", "no comment of two slashes alone: const A = 1u; // one"],
  ["//Twice.\nfn twice() {}", "no comment of two slashes alone: //Twice."],
  ["// twice x\nfn twice() {}", "no sentence of what follows: twice x"],
  ["// Twice x\nfn twice() {}", "no sentence of what follows: Twice x"],
  ["// Twice x.\n\nfn twice() {}", "no sentence of what follows: Twice x."],
  ["@compute @workgroup_size(1)\nfn main() {}", "its header does not begin with double:"],
  [
    "@compute @workgroup_size(1)\n@group(0) @binding(0) var<storage, read> x: array<u32>;",
    "its header has no line of the binding x",
  ],
])("%j is found", (text, fault) => {
  expect(faults("a/double.wgsl", `// Numbers.\n\n${text}\n`).join("\n")).toContain(fault);
});

test("a file without a header is found, and one that runs into its code", () => {
  expect(faults("a.wgsl", "const A = 1u;\n")).toEqual([
    "has no header",
    "has no empty line behind its header",
  ]);
  expect(faults("a.wgsl", "// One.\nconst A = 1u;\n")).toEqual([
    "has no empty line behind its header",
  ]);
});
