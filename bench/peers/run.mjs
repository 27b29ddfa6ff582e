// Runs a program of this folder, with the peers installed first: node bench/peers/run.mjs oracle

import { execFileSync } from "node:child_process";
import { existsSync, readFileSync } from "node:fs";
import { fileURLToPath } from "node:url";
import { runModule } from "../../packaging/run_module.mjs";

const [name = "oracle", ...rest] = process.argv.slice(2);
const folder = fileURLToPath(new URL(".", import.meta.url));
const { dependencies } = JSON.parse(readFileSync(`${folder}package.json`, "utf8"));
if (Object.keys(dependencies).some((peer) => !existsSync(`${folder}node_modules/${peer}`))) {
  // Not "npm ci", which wants every platform's package, and some releases lack one.
  const install = ["install", "--ignore-scripts", "--no-save"];
  execFileSync("npm", install, { cwd: folder, stdio: "inherit" });
}
await runModule(`${folder}${name}.ts`, rest);
