/** Every variable of README and docs in the installed program. */
import { afterAll, describe, expect, test } from "vitest";
import { PAGES, README } from "../support/package/documents.ts";
import { OF_LAVAPIPE, VARIABLES, withoutEnvironment } from "./support/environment.ts";
import { adapterName, shipped, stopAll } from "./support/wisp.ts";

const isLavapipe = adapterName() === "lavapipe";

afterAll(stopAll);

/** Pages about the source: they name constants, variables of tests and benches, and those of MPI. */
const OF_THE_SOURCE = [
  ...["architecture", "kernels", "limits", "parallel", "performance", "testing"],
].map((name) => `docs/${name}.md`);

/** What other programs and libraries are told by, as the pages say. */
const OF_OTHERS = [
  ...["ANTHROPIC_API_KEY", "ANTHROPIC_BASE_URL", "OLLAMA_HOST", "OPENAI_BASE_URL"],
  ...["UCX_NET_DEVICES", "UCX_TLS"],
];

test("every variable that README and docs name for servers has its test here", () => {
  const pages = [README, ...PAGES].filter(({ path }) => !OF_THE_SOURCE.includes(path));
  const text = pages.map((page) => page.text).join("\n");
  const named = [...text.matchAll(/`\$?([A-Z]+(?:_[A-Z]+)+(?:_\*)?)\b\*?[^`]*`/g)];
  const names = new Set(named.map(([, name]) => name!));
  const tested = Object.keys(VARIABLES);
  const covers = (name: string) =>
    tested.some((known) => known === name || known.replace("_*", "") === name.replace(/_$/, ""));
  expect([...names].filter((name) => !covers(name) && !OF_OTHERS.includes(name))).toEqual([]);
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
