// Before `npm start`: builds when there is no build, or when a source is newer than it. Silent.

import { spawnSync } from "node:child_process";
import { existsSync, readdirSync, statSync } from "node:fs";
import { join } from "node:path";
import { fileURLToPath } from "node:url";

const root = fileURLToPath(new URL("..", import.meta.url));

/** Time of the newest change of a file, or of anything in a folder. */
function newest(path) {
  const found = statSync(path);
  if (!found.isDirectory()) return found.mtimeMs;
  return Math.max(found.mtimeMs, ...readdirSync(path).map((name) => newest(join(path, name))));
}

const built = join(root, "dist", "wisp.js");
const page = ["app", "chat", "drawing", "panel", "served", "styles", "index.html"];
const sources = [
  ...["src", "kernels", "packaging", "package.json", "vite.config.ts"],
  ...page.map((name) => join("examples", "browser", name)),
];
const isFresh =
  existsSync(built) &&
  sources.every((name) => newest(join(root, name)) <= statSync(built).mtimeMs);

if (!isFresh) {
  const vite = join(root, "node_modules", "vite", "bin", "vite.js");
  const args = [vite, "build", "--logLevel", "error"];
  const { status } = spawnSync(process.execPath, args, { cwd: root, stdio: "inherit" });
  process.exitCode = status ?? 1;
}
