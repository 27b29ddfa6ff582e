/**
 * Marks what makes a module's constants as free of side effects, which is what `sideEffects: false`
 * says of whole modules: in one bundle there are no modules any more, and a bundler that takes one
 * function out of it has to know which constants it can leave behind.
 *
 * A mark on a call does not cover its arguments, so the whole value moves into a function of its own:
 * `const a = f({ ...b })` becomes `const a = /*@__PURE__*\/ made(() => f({ ...b }))`. The function is
 * not called in place, because minifiers undo that, and the mark with it.
 *
 * @module
 */
import { type Plugin, parseAst } from "vite";

const MODULE = "\0made";
const MADE = "export function made(make) { return make(); }";

/** What bundlers take for a possible side effect: it may run a caller's code. */
const MAY_ACT: ReadonlySet<string> = new Set([
  "CallExpression",
  "NewExpression",
  "SpreadElement",
  "MemberExpression",
  "TaggedTemplateExpression",
  "TemplateLiteral",
  "BinaryExpression",
]);

interface Node {
  readonly type: string;
  readonly start: number;
  readonly end: number;
}

/** The tokenizers' tables stay alone: they are fetched when needed, and import nothing. */
export function pureConstants(): Plugin {
  return {
    name: "pure-constants",
    enforce: "post",
    resolveId: (id) => (id === MODULE ? id : null),
    load: (id) => (id === MODULE ? MADE : null),
    transform(code, id) {
      if (!/\.(ts|js|mjs)$/.test(id) || id.includes("/gpt-tokenizer/")) return null;
      const marked = markConstants(code);
      return marked === code ? null : { code: marked, map: null };
    },
  };
}

/** Moves the values of a module's constants into functions where making them might act. */
export function markConstants(code: string): string {
  const values: Node[] = [];
  for (const statement of parseAst(code).body) {
    const declared =
      statement.type === "ExportNamedDeclaration" ? statement.declaration : statement;
    if (declared?.type !== "VariableDeclaration") continue;
    for (const { init } of declared.declarations) {
      if (init !== null && mayAct(init, MAY_ACT) && !mayAct(init, new Set(["AwaitExpression"]))) {
        values.push(init);
      }
    }
  }
  let marked = code;
  for (const { start, end } of values.reverse()) {
    const made = `/*@__PURE__*/ wisp_made(() => (${code.slice(start, end)}))`;
    marked = marked.slice(0, start) + made + marked.slice(end);
  }
  return values.length === 0 ? code : `${marked}\nimport { made as wisp_made } from "${MODULE}";\n`;
}

/** Whether a node of these kinds runs with it: those inside functions run later. */
function mayAct(node: Node, kinds: ReadonlySet<string>): boolean {
  if (/Function|Class/.test(node.type)) return false;
  if (kinds.has(node.type)) return true;
  return Object.values(node)
    .flat()
    .some((child) => typeof child?.type === "string" && mayAct(child, kinds));
}
