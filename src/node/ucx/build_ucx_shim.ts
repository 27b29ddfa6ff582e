/**
 * Builds the library through which this process talks to UCX, from C that comes with the package.
 *
 * @module
 */
import { spawnSync } from "node:child_process";
import { join } from "node:path";
import { UnsupportedError } from "../../errors.ts";
import { keptLibrary } from "../build_library.ts";
import { cacheFolder } from "../cache_folder.ts";
import type { Environment } from "../hub/hub_settings.ts";
import source from "./shim.c?raw";

/** What it is called in messages. */
export const UCX_FEATURE = "pages over UCX";
const INSTALL =
  'install a C compiler and UCX with its headers, on Debian "apt-get install gcc libucx-dev"';
const COMPILERS = ["cc", "gcc"];

export interface BuildUcxOptions {
  readonly env?: Environment;
  /** Where built libraries are kept. */
  readonly cache?: string;
}

/**
 * @returns Where the library for this machine's UCX is: built at the first call, kept in the cache
 * folder afterwards.
 * @throws {UnsupportedError} that says what to install, or what the compiler said.
 */
export function buildUcxShim({ env = process.env, cache }: BuildUcxOptions = {}): string {
  const { compiler, version } = findCompiler(env);
  return keptLibrary({
    source,
    compiler,
    env,
    feature: UCX_FEATURE,
    install: INSTALL,
    flags: ["-lucp", "-lucs"],
    parts: [version],
    folder: cache ?? join(cacheFolder(), "ucx"),
  }).path;
}

function findCompiler(env: Environment): { readonly compiler: string; readonly version: string } {
  for (const compiler of COMPILERS) {
    const { status, stdout } = spawnSync(compiler, ["--version"], { env, encoding: "utf8" });
    if (status === 0) return { compiler, version: stdout };
  }
  throw new UnsupportedError(UCX_FEATURE, `there is no C compiler that runs; ${INSTALL}`);
}
