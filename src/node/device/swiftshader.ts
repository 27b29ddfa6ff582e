/**
 * Unpacks SwiftShader, a Vulkan driver for the CPU, out of the npm package `@sparticuz/chromium`,
 * so that a machine without a GPU and without any Vulkan package can run.
 *
 * Dawn's Node binding looks for `libvulkan.so.1` in its own folder first, and SwiftShader's library
 * can stand in for it: a folder with the two side by side needs no loader and no environment.
 *
 * @module
 */

import { randomUUID } from "node:crypto";
import {
  copyFileSync,
  existsSync,
  mkdirSync,
  readFileSync,
  renameSync,
  rmSync,
  writeFileSync,
} from "node:fs";
import { createRequire } from "node:module";
import { dirname, join } from "node:path";
import { brotliDecompressSync } from "node:zlib";
import { DeviceError } from "../../errors.ts";
import { packageVersionOf } from "../package_root.ts";

const PACKAGE = "@sparticuz/chromium";
const LIBRARY = "libvk_swiftshader.so";
const TAR_BLOCK = 512;

const require = createRequire(import.meta.url);

/**
 * The path of a `dawn.node` beside a SwiftShader, unpacked into `cache` on first use.
 *
 * @returns `undefined` where the package is not installed or has no build for this machine.
 */
export function unpackSwiftShader(cache: string): string | undefined {
  if (process.platform !== "linux" || process.arch !== "x64") return undefined;
  const archive = archivePath();
  if (archive === undefined) return undefined;
  const dawn = join(dirname(require.resolve("webgpu")), "dist", "linux-x64", "dawn.node");
  const folder = join(cache, `swiftshader-${archive.version}-dawn-${packageVersionOf(dawn)}`);
  if (!existsSync(folder)) fill(folder, archive.path, dawn);
  return join(folder, "dawn.node");
}

/** Whether the npm package with SwiftShader is there. */
export function swiftShaderIsInstalled(): boolean {
  return archivePath() !== undefined;
}

/** Writes beside the final place and renames, so that two processes starting at once agree. */
function fill(folder: string, archive: string, dawn: string): void {
  const draft = `${folder}.${process.pid}-${randomUUID().slice(0, 8)}`;
  mkdirSync(draft, { recursive: true });
  try {
    const tar = brotliDecompressSync(readFileSync(archive));
    writeFileSync(join(draft, "libvulkan.so.1"), fileInTar(tar, LIBRARY));
    // A link would not do: the loader sees that the file is the one it has loaded already.
    copyFileSync(dawn, join(draft, "dawn.node"));
    renameSync(draft, folder);
  } catch (error) {
    rmSync(draft, { recursive: true, force: true });
    if (!existsSync(folder)) throw error;
  }
}

function archivePath(): { readonly path: string; readonly version: string } | undefined {
  for (const root of require.resolve.paths(PACKAGE) ?? []) {
    const folder = join(root, PACKAGE);
    const path = join(folder, "bin", "swiftshader.tar.br");
    if (existsSync(path)) return { path, version: packageVersionOf(path) };
  }
  return undefined;
}

/**
 * The bytes of one file in an uncompressed tar archive.
 *
 * @throws {DeviceError} when the archive has no such file.
 */
function fileInTar(tar: Buffer, wanted: string): Buffer {
  // Header: name in bytes 0-99, size in octal in bytes 124-135; contents padded to whole blocks.
  for (let offset = 0; offset + TAR_BLOCK <= tar.length; ) {
    const name = tar.toString("latin1", offset, offset + 100).replace(/\0.*$/s, "");
    if (name === "") break;
    const size = Number.parseInt(tar.toString("latin1", offset + 124, offset + 136), 8);
    const start = offset + TAR_BLOCK;
    if (name.replace(/^\.\//, "") === wanted) return tar.subarray(start, start + size);
    offset = start + Math.ceil(size / TAR_BLOCK) * TAR_BLOCK;
  }
  throw new DeviceError(`Cannot unpack SwiftShader: ${PACKAGE} holds no ${wanted}`);
}
