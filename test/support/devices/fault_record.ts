/**
 * The record of planted faults: of each kernel's check and driver, in which state the faults of the
 * check were last planted, and how many of them the check caught.
 *
 * @module
 */
import { createHash } from "node:crypto";
import { readFileSync, writeFileSync } from "node:fs";
import { dirname, join, relative } from "node:path";
import { fileURLToPath } from "node:url";
import { parseSync } from "vite";

const root = fileURLToPath(new URL("../../..", import.meta.url));
const FILE = join(root, "kernels", "planted_faults.json");

/** Sources outside of `kernels` that references compute with. */
const FOLLOWED = "src/dtype.ts";

export interface TriedFaults {
  /** Name of the check. */
  readonly kernel: string;
  readonly driver: string;
  /** Of the kernel's texts, the check and its references, without comments. */
  readonly hash: string;
  /** Faults that the check noticed... */
  readonly caught: number;
  /** ...of those that the driver can run. */
  readonly planted: number;
}

export function readFaultRecord(): readonly TriedFaults[] {
  return JSON.parse(readFileSync(FILE, "utf8")) as TriedFaults[];
}

/** Replaces what the record says of a check and driver. No other process may write it meanwhile. */
export function writeFaultRecord(tried: TriedFaults): void {
  const keyOf = ({ kernel, driver }: TriedFaults) => `${kernel}\n${driver}`;
  const entries = new Map([...readFaultRecord(), tried].map((one) => [keyOf(one), one]));
  const sorted = [...entries].sort(([a], [b]) => (a < b ? -1 : 1));
  const lines = sorted.map(([, one]) => JSON.stringify(one));
  writeFileSync(FILE, `[\n${lines.join(",\n")}\n]\n`);
}

interface PlainFile {
  readonly digest: string;
  /** Paths relative to the repository. */
  readonly imports: readonly string[];
  /** Whether it makes a kernel's text, which stands in the hash by itself. */
  readonly isWrapper: boolean;
}

const plainFiles = new Map<string, PlainFile>();

/**
 * Tells one state of a check from every other: the check, what it computes its references with, and
 * the kernel's texts.
 *
 * @param check Path of the check's file, relative to the repository.
 * @param texts Of the kernels in which its faults are planted, as a driver is given them.
 */
export function hashOfCheck(check: string, texts: readonly string[]): string {
  const reached = new Set([check]);
  // A set goes on to what is added to it meanwhile.
  for (const path of reached) {
    const { imports, isWrapper } = plainFile(path);
    for (const imported of isWrapper ? [] : imports) reached.add(imported);
  }
  const files = [...reached].map(plainFile).filter(({ isWrapper }) => !isWrapper);
  const digests = [...files.map(({ digest }) => digest), ...texts.map(kernelDigest)];
  return sha256(digests.sort().join()).slice(0, 16);
}

function plainFile(path: string): PlainFile {
  const known = plainFiles.get(path);
  if (known !== undefined) return known;
  const source = readFileSync(join(root, path), "utf8");
  const requests = parseSync(path, source).module.staticImports;
  const folder = join(root, dirname(path));
  const imports = requests
    .map(({ moduleRequest }) => relative(root, join(folder, moduleRequest.value)))
    .map((imported) => imported.replaceAll("\\", "/"));
  const file: PlainFile = {
    digest: sha256(plainProgramText(path, source)),
    imports: imports.filter((one) => one === FOLLOWED || /^kernels\/.*\.ts$/.test(one)),
    isWrapper: imports.some((imported) => imported.endsWith(".wgsl?raw")),
  };
  plainFiles.set(path, file);
  return file;
}

/** A program without comments and layout, and with the names alone of the files that it imports. */
export function plainProgramText(path: string, source: string): string {
  let code = "";
  let end = 0;
  for (const comment of parseSync(path, source).comments) {
    code += source.slice(end, comment.start);
    end = comment.end;
  }
  code += source.slice(end);
  // A file that only moves is the same.
  return withoutLayout(code).replace(/(?<= from ")[^"]*\//g, "");
}

const kernelDigest = (text: string) => sha256(withoutLayout(text.replace(/\/\/.*/g, "")));

/** Without indentation, line ends and empty lines. */
function withoutLayout(code: string): string {
  const lines = code.split("\n").map((line) => line.trim());
  return lines.filter((line) => line !== "").join("\n");
}

const sha256 = (text: string) => createHash("sha256").update(text).digest("hex");
