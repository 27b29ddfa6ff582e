/**
 * Builds the library through which this process talks to MPI, from C that comes with the package.
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

/** What ranks of several processes are called in messages. */
const FEATURE = "ranks over MPI";
const INSTALL =
  'install a C compiler and MPICH with its headers, on Debian "apt-get install gcc libmpich-dev"';

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
  const { path, isKept } = keptLibrary({
    source,
    compiler,
    env,
    folder,
    feature: FEATURE,
    install: INSTALL,
    parts: [command],
  });
  return { path, compiler, isKept };
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
