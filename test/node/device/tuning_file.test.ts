import { mkdtempSync, readdirSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterEach, beforeEach, describe, expect, test } from "vitest";
import { PLAIN_TUNING, type Tuning } from "../../../src/gpu/tuning.ts";
import {
  storedTuning,
  storeTuning,
  TuningFileError,
  tuningKey,
  tuningPath,
} from "../../../src/node/device/tuning_file.ts";

const HERE = { vendor: "v", architecture: "a", device: "d", description: "driver 1" };
const NEWER = { ...HERE, description: "driver 2" };
const OTHER: Tuning = { ...PLAIN_TUNING, lanes: 16 };
const measured = "2026-11-22T01:00:00.000Z";

let folder: string;
let path: string;
beforeEach(() => {
  folder = mkdtempSync(join(tmpdir(), "wisp-tunings-"));
  path = join(folder, "below", "tunings.json");
});
afterEach(() => rmSync(folder, { recursive: true }));

test("what is stored comes back for its adapter and driver, and for no other", async () => {
  expect(await storedTuning(HERE, path)).toBeUndefined();
  await storeTuning(HERE, { tuning: PLAIN_TUNING, measured }, path);
  expect(await storedTuning(HERE, path)).toEqual({ tuning: PLAIN_TUNING, measured });
  expect(await storedTuning(NEWER, path)).toBeUndefined();
  expect(await storedTuning({ ...HERE, device: "e" }, path)).toBeUndefined();
});

test("an adapter's entry is replaced, those of others stay", async () => {
  await storeTuning(HERE, { tuning: PLAIN_TUNING, measured }, path);
  await storeTuning(NEWER, { tuning: PLAIN_TUNING, measured }, path);
  await storeTuning(HERE, { tuning: OTHER, measured }, path);
  expect((await storedTuning(HERE, path))?.tuning).toEqual(OTHER);
  expect((await storedTuning(NEWER, path))?.tuning).toEqual(PLAIN_TUNING);
  expect(readdirSync(join(folder, "below"))).toEqual(["tunings.json"]);
});

test("the usual place is in the cache folder", () => {
  expect(tuningPath()).toMatch(/wisp[^/\\]*[/\\]tunings\.json$/);
});

describe("a file that is not what it should be is refused, and left as it is", () => {
  const file = (entry: unknown, rest: object = {}) =>
    JSON.stringify({ version: 1, tunings: { [tuningKey(HERE)]: entry }, ...rest });
  const good = { tuning: PLAIN_TUNING, measured };
  test.each([
    ["{", "it is not JSON"],
    ["[]", "it is not an object"],
    [file(good, { version: 2 }), "its version is not 1"],
    [file(good, { colour: "blue" }), 'it has a field "colour"'],
    [JSON.stringify({ version: 1 }), "its field tunings is not an object"],
    [file(null), "is not an object"],
    [file({ ...good, colour: "blue" }), 'has a field "colour"'],
    [file({ tuning: PLAIN_TUNING }), "has no date"],
    [file({ ...good, tuning: { ...PLAIN_TUNING, lanes: 7 } }), "lanes must be one of 8, 16, 32"],
  ])("%s", async (text, problem) => {
    const broken = join(folder, "tunings.json");
    writeFileSync(broken, text);
    const reading = storedTuning(HERE, broken);
    await expect(reading).rejects.toThrow(TuningFileError);
    await expect(reading).rejects.toThrow(problem);
    await expect(reading).rejects.toThrow(broken);
    expect(readFileSync(broken, "utf8")).toBe(text);
  });

  test("a folder cannot be read or written", async () => {
    const stored = { tuning: PLAIN_TUNING, measured };
    await expect(storeTuning(HERE, stored, folder)).rejects.toThrow(`Cannot read ${folder}`);
    const inside = join(folder, "a file", "tunings.json");
    writeFileSync(join(folder, "a file"), "");
    await expect(storeTuning(HERE, stored, inside)).rejects.toThrow(TuningFileError);
  });
});
