/**
 * Builds libraries from C that comes with the package, once for each machine and what they are built
 * with.
 *
 * @module
 */
import { spawnSync } from "node:child_process";
import { createHash, randomUUID } from "node:crypto";
import { existsSync, mkdirSync, mkdtempSync, renameSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { UnsupportedError } from "../errors.ts";
import type { Environment } from "./hub/hub_settings.ts";

/** Lines of a compiler's complaint that are told. */
const SHOWN_LINES = 8;

export interface LibraryBuild {
  /** In C. */
  readonly source: string;
  readonly compiler: string;
  /** Behind the source, such as libraries. */
  readonly flags?: readonly string[];
  /** What else the result depends on. */
  readonly parts: readonly string[];
  readonly env: Environment;
  /** Where it is kept. */
  readonly folder: string;
  /** What needs it, and what to install, in messages. */
  readonly feature: string;
  readonly install: string;
}

export interface KeptLibrary {
  readonly path: string;
  /** Whether it was there already. */
  readonly isKept: boolean;
}

/** @throws {UnsupportedError} that says what the compiler said. */
export function keptLibrary(build: LibraryBuild): KeptLibrary {
  const { source, flags = [], parts, folder } = build;
  const all = [source, ...parts, ...flags, process.platform, process.arch];
  const hash = createHash("sha256").update(JSON.stringify(all)).digest("hex").slice(0, 24);
  const path = join(folder, `shim-${hash}.so`);
  if (existsSync(path)) return { path, isKept: true };
  mkdirSync(folder, { recursive: true, mode: 0o700 });
  compile(build, path);
  return { path, isKept: false };
}

/** Writes beside the final place and renames, so that two processes starting at once agree. */
function compile(
  { source, compiler, flags = [], env, feature, install }: LibraryBuild,
  path: string,
): void {
  const folder = mkdtempSync(join(tmpdir(), "wisp-build-"));
  const draft = `${path}.${process.pid}-${randomUUID().slice(0, 8)}`;
  try {
    const file = join(folder, "shim.c");
    writeFileSync(file, source);
    const args = ["-O2", "-std=gnu11", "-shared", "-fPIC", "-pthread", file, ...flags, "-o", draft];
    const { status, stderr, error } = spawnSync(compiler, args, { env, encoding: "utf8" });
    if (status !== 0) {
      const said = (error?.message ?? stderr).trim().split("\n").slice(0, SHOWN_LINES).join("\n");
      const problem = `${compiler} does not build their library; ${install}:\n${said}`;
      throw new UnsupportedError(feature, problem);
    }
    renameSync(draft, path);
  } finally {
    rmSync(draft, { force: true });
    rmSync(folder, { recursive: true, force: true });
  }
}
