// Runs `main(args)` of a TypeScript module that imports what only Vite loads, and ends with the exit
// code that it returns: node packaging/run_module.mjs kernels/print/print_kernel.ts linear/linear

import { resolve } from "node:path";
import { createServer } from "vite";

/**
 * @param {string} path
 * @param {readonly string[]} args
 * @returns {Promise<unknown>} What `main` returns.
 */
export async function runModule(path, args) {
  const server = await createServer({
    configFile: false,
    logLevel: "error",
    server: { middlewareMode: true, watch: null, ws: false },
    // Nothing is served, so no page's dependencies are looked for.
    optimizeDeps: { noDiscovery: true },
  });
  try {
    const { main } = await server.ssrLoadModule(resolve(path));
    return await main(args);
  } finally {
    await server.close();
  }
}

if (import.meta.filename === process.argv[1]) {
  const [path, ...args] = process.argv.slice(2);
  process.exitCode = Number(await runModule(path, args)) || 0;
}
