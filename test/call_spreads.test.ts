/**
 * Refuses calls with a list spread as their arguments: from some ten thousand elements on such a call
 * overflows the stack, and what clients and files send has no bound of that kind.
 *
 * @module
 */
import { readdirSync, readFileSync } from "node:fs";
import { fileURLToPath } from "node:url";
import { parseAst } from "vite";
import { expect, test } from "vitest";
import { isNode, type Node, nodesOf } from "./support/syntax_nodes.ts";

const source = fileURLToPath(new URL("../src", import.meta.url));

/** What callers gave one by one may be passed on so. */
function ownRest(node: Node): readonly string[] {
  const params = Array.isArray(node.params) ? (node.params as readonly Node[]) : [];
  return params
    .filter((param) => param.type === "RestElement" && isNode(param.argument))
    .map(({ argument }) => (argument as Node).name as string);
}

/** Lines of a file with such calls. */
function spreadsOf(code: string): readonly number[] {
  const nodes = [...nodesOf(parseAst(code, { lang: "ts" }))];
  const rests = new Set(nodes.flatMap(ownRest));
  return nodes
    .filter(({ type }) => type === "CallExpression" || type === "NewExpression")
    .flatMap((call) => call.arguments as readonly Node[])
    .filter(({ type, argument }) => {
      if (type !== "SpreadElement" || !isNode(argument)) return false;
      return argument.type !== "Identifier" || !rests.has(argument.name as string);
    })
    .map(({ start }) => code.slice(0, start).split("\n").length);
}

test("no call in src has a list spread as its arguments", () => {
  const files = readdirSync(source, { recursive: true, encoding: "utf8" });
  const found = files
    .filter((path) => path.endsWith(".ts") && !path.endsWith(".d.ts"))
    .flatMap((path) =>
      spreadsOf(readFileSync(`${source}/${path}`, "utf8")).map((line) => `src/${path}:${line}`),
    );
  expect(found).toEqual([]);
});

test("the checker sees calls, constructors and optional calls, not arrays and passed arguments", () => {
  const code = [
    "pages.push(...pool.allocate(3));",
    "new Set(...lists);",
    "largest?.(0, ...values);",
    "const all = f([...a, ...b], { ...c });",
    "const passed = (...list: number[]) => f(...list);",
  ];
  expect(spreadsOf(code.join("\n"))).toEqual([1, 2, 3]);
});
