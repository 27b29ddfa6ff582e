/**
 * Where this library keeps files that it can make again: unpacked drivers, compiled shaders.
 *
 * @module
 */

import { accessSync, constants, mkdirSync, mkdtempSync, statSync } from "node:fs";
import { homedir, tmpdir, userInfo } from "node:os";
import { isAbsolute, join } from "node:path";

/**
 * A folder that this user alone can write, created when it is missing.
 *
 * `$XDG_CACHE_HOME/wisp` or `~/.cache/wisp`; where neither can be written, a folder of this user
 * in the system's temporary folder.
 */
export function cacheFolder(): string {
  const configured = process.env.XDG_CACHE_HOME;
  const base = configured && isAbsolute(configured) ? configured : join(homedir(), ".cache");
  const preferred = writableFolder(join(base, "wisp"));
  if (preferred !== undefined) return preferred;
  // Drivers are loaded from here, so a folder that another user prepared must not be trusted.
  const shared = writableFolder(join(tmpdir(), `wisp-${userInfo().uid}`));
  return shared ?? mkdtempSync(join(tmpdir(), "wisp-"));
}

function writableFolder(path: string): string | undefined {
  try {
    mkdirSync(path, { recursive: true, mode: 0o700 });
    accessSync(path, constants.W_OK | constants.X_OK);
    const owner = statSync(path).uid;
    return process.getuid === undefined || owner === process.getuid() ? path : undefined;
  } catch {
    return undefined;
  }
}
