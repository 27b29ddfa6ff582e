/** What the commands for tests run: between them every test there is. */
import { spawnSync } from "node:child_process";
import { readdirSync, readFileSync } from "node:fs";
import { join, relative } from "node:path";
import { fileURLToPath } from "node:url";
import { expect, test } from "vitest";

const root = fileURLToPath(new URL("..", import.meta.url));
const vitest = join(root, "node_modules", "vitest", "vitest.mjs");
const { scripts } = JSON.parse(readFileSync(join(root, "package.json"), "utf8")) as {
  readonly scripts: Readonly<Record<string, string>>;
};

/** Projects that scripts of the package name, as options of vitest. */
function projectsOf(...names: readonly string[]): readonly string[] {
  return names.flatMap((name) =>
    scripts[name]!.match(/--project \w+/g)!
      .join(" ")
      .split(" "),
  );
}

function filesOf(projects: readonly string[]): ReadonlySet<string> {
  const args = [vitest, "list", "--filesOnly", "--json", ...projects];
  const env = { ...process.env, VITEST: undefined, WISP_TEST_FULL: undefined };
  const { stdout, stderr } = spawnSync(process.execPath, args, {
    cwd: root,
    env,
    encoding: "utf8",
  });
  const listed = /^\[.*^\]/ms.exec(stdout)?.[0];
  if (listed === undefined) throw new Error(`Cannot list the tests: ${stdout}${stderr}`);
  const files = JSON.parse(listed) as { readonly file: string }[];
  return new Set(files.map(({ file }) => relative(root, file).replaceAll("\\", "/")));
}

test("each test is run by npm test or by npm run test:drivers", () => {
  const all = readdirSync(join(root, "test"), { recursive: true, encoding: "utf8" })
    .filter((name) => name.endsWith(".test.ts") && !name.includes("node_modules"))
    .map((name) => `test/${name.replaceAll("\\", "/")}`);
  expect([...filesOf(projectsOf("test", "test:drivers"))].sort()).toEqual(all.sort());
});
