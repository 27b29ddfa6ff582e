import { readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { expect, test } from "vitest";
import type { OptionTable } from "../src/node/option_parser.ts";
import { LAUNCH_OPTIONS } from "../src/node/options.ts";

const root = fileURLToPath(new URL("..", import.meta.url));
const readme = readFileSync(join(root, "README.md"), "utf8");

/** The option table, as README shows it. */
function optionTable(table: OptionTable): string {
  const rows = Object.values(table);
  const works = rows.filter(({ neutral }) => neutral === undefined);
  const planned = rows.filter(({ neutral }) => neutral !== undefined);
  const lines = works.map(({ flags, value, choices, kind, help, defaultText, ...row }) => {
    const shown = kind === "flag" ? "" : ` ${value ?? choices?.join("\\|") ?? "N"}`;
    const fallback = defaultText ?? (kind === "flag" ? "" : (row.default ?? ""));
    return `| \`${flags.join("`, `")}\`${shown} | ${fallback} | ${help} |`;
  });
  const names = planned.map(({ flags }) => `\`${flags[0]}\``).join(", ");
  return `
| option | default | |
|---|---|---|
${lines.join("\n")}

Known and refused by name until their capability exists, except with a value that asks for what is done anyway: ${names}.
`;
}

test("README's option table is what the rows say (WISP_UPDATE_README=1 writes it)", () => {
  const marked = /(<!-- options -->\n).*?(<!-- \/options -->)/s;
  const wanted = readme.replace(
    marked,
    (_, begin, end) => begin + optionTable(LAUNCH_OPTIONS) + end,
  );
  if (process.env.WISP_UPDATE_README === "1") writeFileSync(join(root, "README.md"), wanted);
  expect(readFileSync(join(root, "README.md"), "utf8")).toBe(wanted);
});
