// Runs a program of this folder, with the peers installed first: node bench/peers/run.mjs oracle

import { execFileSync } from "node:child_process";
import { existsSync, readFileSync } from "node:fs";
import { fileURLToPath } from "node:url";
import { createServer } from "vite";

const [name = "oracle", ...rest] = process.argv.slice(2);
const folder = fileURLToPath(new URL(".", import.meta.url));
const { dependencies } = JSON.parse(readFileSync(`${folder}package.json`, "utf8"));
if (Object.keys(dependencies).some((peer) => !existsSync(`${folder}node_modules/${peer}`))) {
  // Not "npm ci", which wants every platform's package, and some releases lack one.
  const install = ["install", "--ignore-scripts", "--no-save"];
  execFileSync("npm", install, { cwd: folder, stdio: "inherit" });
}
const server = await createServer({
  configFile: false,
  logLevel: "error",
  server: { middlewareMode: true, watch: null, ws: false },
  // Nothing is served, so no page's dependencies are looked for.
  optimizeDeps: { noDiscovery: true },
});
try {
  const { main } = await server.ssrLoadModule(`${folder}${name}.ts`);
  await main(rest);
} finally {
  await server.close();
}
