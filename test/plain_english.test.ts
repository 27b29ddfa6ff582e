/**
 * Sentences name who acts: a module, an option, a caller. Words that name no one are retired.
 *
 * @module
 */

import { readdirSync, readFileSync, statSync } from "node:fs";
import { fileURLToPath } from "node:url";
import { expect, test } from "vitest";

const root = fileURLToPath(new URL("..", import.meta.url));

const PLACES = [
  ...["src", "kernels", "packaging", "examples", "test", "bench", "docs"],
  ...["README.md", "CONTRIBUTING.md"],
];
const ENDINGS = /\.(ts|mjs|wgsl|md|html)$/;

// In parts, as this file is read too.
const RETIRED = new RegExp(
  `\\b(?:${["[Nn]o", "[Ss]ome", "[Aa]ny", "[Ee]very"].map((part) => `${part}(?:body|one)`).join("|")})\\b` +
    `|\\b[Ww]ho${"ever"}\\b|\\b[Rr]efused by ${"name"}\\b`,
);

/** It quotes one of the words to forbid it. */
const QUOTING = '* Sentences name who acts: "the scheduler retracts the sequence", not ';

function filesIn(place: string): string[] {
  if (!statSync(`${root}/${place}`).isDirectory()) return [place];
  return readdirSync(`${root}/${place}`, { recursive: true, encoding: "utf8" })
    .filter((name) => !name.includes("node_modules") && ENDINGS.test(name))
    .map((name) => `${place}/${name}`);
}

test("sentences name who acts", () => {
  const found = PLACES.flatMap(filesIn).flatMap((path) =>
    readFileSync(`${root}/${path}`, "utf8")
      .split("\n")
      .flatMap((line, i) =>
        RETIRED.test(line) && !line.startsWith(QUOTING) ? [`${path}:${i + 1}: ${line}`] : [],
      ),
  );
  expect(found).toEqual([]);
});
