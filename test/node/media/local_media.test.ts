import { execFileSync } from "node:child_process";
import { mkdirSync, mkdtempSync, rmSync, symlinkSync, truncateSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { pathToFileURL } from "node:url";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { InvalidRequestError } from "../../../src/errors.ts";
import { MAX_IMAGE_BYTES } from "../../../src/images/pixels.ts";
import { localMedia } from "../../../src/node/media/local_media.ts";

const IMAGE = Uint8Array.from([1, 2, 3]);
const OUTSIDE = "Cannot read the image: it is no file in the folder of --allowed-local-media-path";

describe("images in a folder", () => {
  let base: string;
  beforeAll(() => {
    base = mkdtempSync(join(tmpdir(), "wisp-media-"));
    const at = (...names: string[]) => join(base, ...names);
    mkdirSync(at("images", "below"), { recursive: true });
    mkdirSync(at("images-of-others"));
    for (const name of [
      "images/a.png",
      "images/below/b c.png",
      "images-of-others/c.png",
      "d.png",
    ]) {
      writeFileSync(at(name), IMAGE);
    }
    symlinkSync(at("images", "a.png"), at("images", "link-inside.png"));
    symlinkSync(at("d.png"), at("images", "link-out.png"));
    symlinkSync(at("images", "link-out.png"), at("images", "link-to-link.png"));
    symlinkSync(base, at("images", "folder-out"));
    symlinkSync(at("images", "loop.png"), at("images", "loop.png"));
    symlinkSync("/dev/zero", at("images", "zero.png"));
    symlinkSync(at("images"), at("images-by-link"));
    writeFileSync(at("images", "large.png"), "");
    truncateSync(at("images", "large.png"), MAX_IMAGE_BYTES + 1);
    execFileSync("mkfifo", [at("images", "pipe.png")]);
  });
  afterAll(() => rmSync(base, { recursive: true }));

  const options = () => ({ signal: new AbortController().signal, onBytes: () => {} });
  const read = (name: string, folder = "images") =>
    localMedia(join(base, folder))(name.replaceAll("BASE", base), options());

  test.each([
    "a.png",
    "./below/../a.png",
    "below/b c.png",
    "link-inside.png",
    "BASE/images/a.png",
    "file://BASE/images/below/b%20c.png",
  ])("%s is read", async (name) => {
    expect(await read(name)).toEqual(IMAGE);
  });

  test("by the folder's own link and by its real name", async () => {
    expect(await read("a.png", "images-by-link")).toEqual(IMAGE);
    expect(await read("BASE/images/a.png", "images-by-link")).toEqual(IMAGE);
    const { href } = pathToFileURL(join(base, "images", "a.png"));
    expect(await read(href)).toEqual(IMAGE);
  });

  test.each([
    "absent.png",
    "../d.png",
    "below/../../d.png",
    "BASE/d.png",
    "BASE/images-of-others/c.png",
    "../images-of-others/c.png",
    "link-out.png",
    "link-to-link.png",
    "folder-out/d.png",
    "folder-out/images/../d.png",
    "loop.png",
    "zero.png",
    "pipe.png",
    "below",
    ".",
    "",
    "a.png\0.png",
    "/etc/passwd",
    "/proc/self/environ",
    "/dev/stdin",
    "file:///etc/passwd",
    "file://BASE/images/%2e%2e/d.png",
    "file://BASE/images/..%2fd.png",
    "file://other.test/BASE/images/a.png",
    "file:",
    "FILE:///etc/passwd",
    "a".repeat(4000),
  ])("%.40s is refused, whether or not there is such a file", async (name) => {
    const error: unknown = await read(name).catch((reason: unknown) => reason);
    expect(error).toBeInstanceOf(InvalidRequestError);
    expect((error as Error).message).toBe(OUTSIDE);
  });

  test("one that is too large is not read", async () => {
    await expect(read("large.png")).rejects.toThrow("33554433 bytes are more than 33554432");
  });

  test("bytes are counted, and who counts them may refuse them", async () => {
    const onBytes = () => {
      throw new Error("no room");
    };
    const file = localMedia(join(base, "images"));
    await expect(file("a.png", { ...options(), onBytes })).rejects.toThrow("no room");
    const left = AbortSignal.abort(new Error("left"));
    await expect(file("a.png", { ...options(), signal: left })).rejects.toThrow("left");
  });
});
