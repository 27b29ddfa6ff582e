/**
 * The package's files as `npm run build` makes them, without the declarations.
 *
 * @module
 */
import { fileURLToPath } from "node:url";
import { createBuilder } from "vite";

const root = fileURLToPath(new URL("../..", import.meta.url));

/** @param outDir What is in there is replaced. */
export async function buildPackage(outDir: string): Promise<void> {
  const builder = await createBuilder({ root, logLevel: "error", build: { outDir } });
  await builder.buildApp();
}
