/**
 * Whether a download fits on the disk.
 *
 * @module
 */

import { mkdir, statfs } from "node:fs/promises";
import { DownloadError } from "../../http/retries.ts";

/** Free bytes of the file system that a folder is on. */
export type FreeBytes = (folder: string) => Promise<number>;

/** Left for everything else on the disk. */
const SPARE_BYTES = 16 * 2 ** 20;

/** @throws {DownloadError} when `folder` has no room for as many bytes. */
export async function checkSpace(
  subject: string,
  folder: string,
  needed: number,
  freeBytes: FreeBytes = freeBytesOf,
): Promise<void> {
  if (needed === 0) return;
  await mkdir(folder, { recursive: true });
  const free = await freeBytes(folder);
  if (needed + SPARE_BYTES <= free) return;
  const gap = `${gigabytes(needed)} more are needed, ${gigabytes(free)} are free`;
  throw new DownloadError(subject, `there is no room in ${folder}: ${gap}`);
}

async function freeBytesOf(folder: string): Promise<number> {
  const { bavail, bsize } = await statfs(folder);
  return bavail * bsize;
}

function gigabytes(bytes: number): string {
  return `${(bytes / 1e9).toFixed(bytes < 1e9 ? 3 : 1)} GB`;
}
