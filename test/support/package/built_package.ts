/**
 * Where the builds are that all tests of a run share (`shared_builds.ts`).
 *
 * @module
 */
import { join } from "node:path";
import { inject } from "vitest";
import { sharedBuild } from "./shared_builds.ts";

/** The files of the package that users install. Nothing may be written there. */
export async function builtPackage(): Promise<string> {
  return join(await sharedBuild(inject("builds"), "package"), "dist");
}

/** The files of the demo. Nothing may be written there. */
export function builtDemo(): Promise<string> {
  return sharedBuild(inject("builds"), "demo");
}
