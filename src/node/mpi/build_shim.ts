/**
 * Builds the library through which this process talks to MPI, from C that comes with the package.
 *
 * @module
 */
import { spawnSync } from "node:child_process";
import { createHash, randomUUID } from "node:crypto";
import { existsSync, mkdirSync, mkdtempSync, renameSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { UnsupportedError } from "../../errors.ts";
import { cacheFolder } from "../cache_folder.ts";
import type { Environment } from "../hub/hub_settings.ts";
import source from "./shim.c?raw";

/** What ranks of several processes are called in messages. */
const FEATURE = "ranks over MPI";
const INSTALL =
  'install a C compiler and MPICH with its headers, on Debian "apt-get install gcc libmpich-dev"';
/** Lines of a compiler's complaint that are told. */
const SHOWN_LINES = 8;

export interface BuiltShim {
  readonly path: string;
  /** The compiler of MPI that made it. */
  readonly compiler: string;
  /** Whether it was there already. */
  readonly isKept: boolean;
}

export interface BuildShimOptions {
  readonly env?: Environment;
  /** Where built libraries are kept. */
  readonly cache?: string;
}

/**
 * The library for this machine's MPI: built at the first call, kept in the cache folder afterwards.
 *
 * @throws {UnsupportedError} that says what to install, or what the compiler said.
 */
export function buildShim({ env = process.env, cache }: BuildShimOptions = {}): BuiltShim {
  const { compiler, command } = findCompiler(env);
  const folder = cache ?? join(cacheFolder(), "mpi");
  const parts = [source, command, process.platform, process.arch];
  const hash = createHash("sha256").update(JSON.stringify(parts)).digest("hex").slice(0, 24);
  const path = join(folder, `shim-${hash}.so`);
  if (existsSync(path)) return { path, compiler, isKept: true };
  mkdirSync(folder, { recursive: true, mode: 0o700 });
  compile(compiler, path, env);
  return { path, compiler, isKept: false };
}

/** The wrapper that knows where MPI is, and what it runs. */
function findCompiler(env: Environment): { readonly compiler: string; readonly command: string } {
  const asked = env.WISP_MPICC;
  const own = env.OMPI_COMM_WORLD_SIZE === undefined ? "mpicc.mpich" : "mpicc.openmpi";
  for (const compiler of asked ? [asked] : [own, "mpicc"]) {
    const { status, stdout } = spawnSync(compiler, ["-show"], { env, encoding: "utf8" });
    if (status === 0) return { compiler, command: stdout };
  }
  const wanted = asked ? `"${asked}" of WISP_MPICC` : "mpicc";
  throw new UnsupportedError(FEATURE, `there is no ${wanted} that runs; ${INSTALL}`);
}

/** Writes beside the final place and renames, so that two processes starting at once agree. */
function compile(compiler: string, path: string, env: Environment): void {
  const folder = mkdtempSync(join(tmpdir(), "wisp-mpi-"));
  const draft = `${path}.${process.pid}-${randomUUID().slice(0, 8)}`;
  try {
    const file = join(folder, "shim.c");
    writeFileSync(file, source);
    const args = ["-O2", "-std=gnu11", "-shared", "-fPIC", "-pthread", file, "-o", draft];
    const { status, stderr, error } = spawnSync(compiler, args, { env, encoding: "utf8" });
    if (status !== 0) {
      const said = (error?.message ?? stderr).trim().split("\n").slice(0, SHOWN_LINES).join("\n");
      throw new UnsupportedError(
        FEATURE,
        `${compiler} does not build their library; ${INSTALL}:\n${said}`,
      );
    }
    renameSync(draft, path);
  } finally {
    rmSync(draft, { force: true });
    rmSync(folder, { recursive: true, force: true });
  }
}
