/** Every variable of the README in the installed program. */
import { readFileSync } from "node:fs";
import { fileURLToPath } from "node:url";
import { afterAll, describe, expect, test } from "vitest";
import { OF_LAVAPIPE, VARIABLES, withoutEnvironment } from "./support/environment.ts";
import { adapterName, shipped, stopAll } from "./support/wisp.ts";

const root = fileURLToPath(new URL("../..", import.meta.url));
const isLavapipe = adapterName() === "lavapipe";

afterAll(stopAll);

test("every variable that the README names for servers has its test here", () => {
  const readme = readFileSync(`${root}README.md`, "utf8");
  const named = [...readme.matchAll(/`\$?([A-Z]+(?:_[A-Z]+)+(?:_\*)?)\b\*?[^`]*`/g)];
  const names = new Set(named.map(([, name]) => name!));
  // What the tests themselves are told.
  for (const ours of ["WISP_TEST_FULL", "WISP_UPDATE_README"]) names.delete(ours);
  const tested = Object.keys(VARIABLES);
  const covers = (name: string) =>
    tested.some((known) => known === name || known.replace("_*", "") === name.replace(/_$/, ""));
  expect([...names].filter((name) => !covers(name))).toEqual([]);
});

describe.concurrent("variables", () => {
  test.for(Object.keys(VARIABLES))("%s", async (name, { skip }) => {
    if (OF_LAVAPIPE.has(name) && !isLavapipe) skip("it is a matter of lavapipe");
    await VARIABLES[name]!();
  });
});

test("an installation whose files read no environment fails these tests", async () => {
  const planted = withoutEnvironment(shipped());
  // Those that would look for a hub elsewhere are left out.
  const cheap = ["WISP_ADAPTER", "SVC_*", "OPENAI_API_KEY"];
  for (const name of cheap) await expect(VARIABLES[name]!(planted), name).rejects.toThrow();
});
