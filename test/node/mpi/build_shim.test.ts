/** The library that ranks talk to MPI through: built once, or refused with what is missing. */
import { chmodSync, mkdtempSync, readdirSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, describe, expect, test } from "vitest";
import { UnsupportedError } from "../../../src/errors.ts";
import { buildShim } from "../../../src/node/mpi/build_shim.ts";
import { loadMpiLibrary } from "../../../src/node/mpi/mpi_library.ts";
import { lackOfMpi } from "../../support/mpi/processes.ts";

const folder = mkdtempSync(join(tmpdir(), "wisp-shim-"));
afterAll(() => rmSync(folder, { recursive: true }));

/** A program that stands for a compiler. */
function compiler(name: string, text: string): string {
  const path = join(folder, name);
  writeFileSync(path, `#!/bin/sh\n${text}\n`);
  chmodSync(path, 0o755);
  return path;
}

const refusal = (env: Record<string, string>) => {
  try {
    buildShim({ env, cache: join(folder, "refused") });
  } catch (error) {
    expect(error).toBeInstanceOf(UnsupportedError);
    return (error as Error).message;
  }
  return "built";
};

describe("buildShim", () => {
  test.skipIf(lackOfMpi() !== undefined)(
    "builds once, and what it built can be loaded",
    async () => {
      const cache = join(folder, "cache");
      const built = buildShim({ cache });
      expect(built.isKept).toBe(false);
      expect(buildShim({ cache })).toEqual({ ...built, isKept: true });
      // Nothing unfinished lies beside it.
      expect(readdirSync(cache)).toHaveLength(1);
      const library = await loadMpiLibrary(built.path);
      expect(library.diesWithParent(process.pid)).toBe(false);
    },
  );

  test("says what to install where there is no MPI", () => {
    expect(refusal({ PATH: folder })).toBe(
      'Cannot use ranks over MPI: there is no mpicc that runs; install a C compiler and MPICH with its headers, on Debian "apt-get install gcc libmpich-dev"',
    );
    expect(refusal({ PATH: folder, WISP_MPICC: "/no/cc" })).toContain(
      'there is no "/no/cc" of WISP_MPICC that runs; install',
    );
  });

  test("says what a compiler without headers says", () => {
    const text =
      'if [ "$1" = -show ]; then echo gcc; else echo "mpi.h: No such file" >&2; exit 1; fi';
    const path = compiler("mpicc", text);
    expect(refusal({ PATH: "/bin:/usr/bin", WISP_MPICC: path })).toMatch(
      /^Cannot use ranks over MPI: .*mpicc does not build their library; install .*\nmpi\.h: No such file$/,
    );
    expect(readdirSync(join(folder, "refused"))).toEqual([]);
  });

  test("a library that is none is named", async () => {
    const path = join(folder, "none.so");
    writeFileSync(path, "text");
    await expect(loadMpiLibrary(path)).rejects.toThrow(
      `Cannot use ranks over MPI: ${path} cannot be loaded`,
    );
  });
});
