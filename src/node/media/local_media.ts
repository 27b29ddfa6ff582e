/**
 * Images in one folder, by name. No name leads out of it, by no link either.
 *
 * @module
 */
import { constants } from "node:fs";
import { type FileHandle, open, realpath, stat } from "node:fs/promises";
import { isAbsolute, resolve, sep } from "node:path";
import { fileURLToPath } from "node:url";
import { InvalidRequestError } from "../../errors.ts";
import { MAX_IMAGE_BYTES, refuseImage } from "../../images/pixels.ts";
import type { MediaAccess, MediaOptions } from "../../server/media.ts";

const PIECE_BYTES = 2 ** 18;

/**
 * @param folder Names are of files in it or below, absolute or from there on.
 * @returns Does not tell which files there are elsewhere: a file that is not there and one that may not
 * be read have one error.
 */
export function localMedia(folder: string): NonNullable<MediaAccess["readFile"]> {
  return async (name, options) => {
    const file = await openInside(folder, name);
    try {
      return await readWhole(file, options);
    } finally {
      await file.close();
    }
  };
}

async function openInside(folder: string, name: string): Promise<FileHandle> {
  let file: FileHandle | undefined;
  try {
    const root = await realpath(folder);
    const path = await realpath(pathOf(root, name));
    if (!path.startsWith(root.endsWith(sep) ? root : root + sep)) throw outside();
    // What is no file does not keep it waiting, and a link that has taken the file's place is not followed.
    file = await open(path, constants.O_RDONLY | constants.O_NOFOLLOW | constants.O_NONBLOCK);
    const opened = await file.stat();
    // A folder on the way may have become a link meanwhile.
    const [there, again] = [await stat(path), await realpath(path)];
    const isSame = again === path && there.ino === opened.ino && there.dev === opened.dev;
    if (!opened.isFile() || !isSame) throw outside();
    if (opened.size > MAX_IMAGE_BYTES) {
      refuseImage(`${opened.size} bytes are more than ${MAX_IMAGE_BYTES}`);
    }
    return file;
  } catch (error) {
    await file?.close();
    throw error instanceof InvalidRequestError ? error : outside();
  }
}

function pathOf(root: string, name: string): string {
  const path = /^file:/i.test(name) ? fileURLToPath(name) : name;
  return isAbsolute(path) ? path : resolve(root, path);
}

const outside = (): InvalidRequestError =>
  new InvalidRequestError(
    "Cannot read the image: it is no file in the folder of --allowed-local-media-path",
  );

/** As much as there is, which may be more than it was. */
async function readWhole(file: FileHandle, options: MediaOptions): Promise<Uint8Array> {
  const pieces: Uint8Array[] = [];
  let total = 0;
  for (;;) {
    options.signal.throwIfAborted();
    const { bytesRead, buffer } = await file.read({ buffer: new Uint8Array(PIECE_BYTES) });
    if (bytesRead === 0) break;
    total += bytesRead;
    if (total > MAX_IMAGE_BYTES) refuseImage(`it has more than ${MAX_IMAGE_BYTES} bytes`);
    options.onBytes(bytesRead);
    pieces.push(buffer.subarray(0, bytesRead));
  }
  return joined(pieces, total);
}

/** Bytes that came in pieces. */
export function joined(pieces: readonly Uint8Array[], total: number): Uint8Array {
  const out = new Uint8Array(total);
  let at = 0;
  for (const piece of pieces) {
    out.set(piece, at);
    at += piece.length;
  }
  return out;
}
