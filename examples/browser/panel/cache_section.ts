/**
 * The prefix cache as a drawing: every node a bar as long as its tokens, behind what comes before.
 *
 * @module
 */
import type { CacheTree } from "wisp-llm";
import { element } from "../app/dom.ts";
import { at, drawing, svg, table } from "../drawing/drawing.ts";
import { count } from "../drawing/figures.ts";
import { layOutTree, type TreeLayout, type TreeRow } from "./tree_layout.ts";

const MAX_ROWS = 40;
/** In the units of the drawing, which is scaled to the panel's width. */
const WIDTH = 320;
const ROW = 30;
const BAR = { y: 17, height: 7, least: 3 };
const LABEL = { y: 12, indent: 3, characters: 30, size: 5.6 };

export class CacheSection {
  readonly element: HTMLElement;
  readonly #drawing = element("div", { class: "panel-tree" });
  readonly #note = element("p", { class: "panel-note" });
  /** What is drawn now, so that a tree that has not changed costs nothing. */
  #drawn = "";

  constructor() {
    const legend = element(
      "span",
      { class: "panel-legend", "aria-hidden": "true" },
      element("span", { class: "key key-used" }, "in use"),
      element("span", { class: "key key-cached" }, "cached"),
    );
    this.element = element(
      "section",
      { class: "panel-section" },
      element("h3", {}, "Prefix cache", legend),
      this.#drawing,
      this.#note,
    );
    this.#note.textContent = "Empty: the first prompt will fill it.";
  }

  show(tree: CacheTree): void {
    const text = JSON.stringify(tree);
    if (text === this.#drawn) return;
    this.#drawn = text;
    const layout = layOutTree(tree, MAX_ROWS);
    this.#note.textContent = note(tree, layout);
    if (layout.rows.length === 0) this.#drawing.replaceChildren();
    else this.#drawing.replaceChildren(drawTree(tree, layout), treeTable(layout));
  }

  /** For an engine that does not tell. */
  showAbsent(): void {
    this.#note.textContent = "This engine does not show its prefix cache.";
  }
}

function note({ nodes, pageSize, isComplete }: CacheTree, { hidden }: TreeLayout): string {
  if (nodes.length === 0) return "Empty: the first prompt will fill it.";
  const pages = nodes.reduce((sum, node) => sum + node.pages, 0);
  const size = pageSize === 1 ? "pages of one token" : `pages of ${pageSize} tokens`;
  const more = isComplete ? "" : "at least ";
  const rest = hidden === 0 ? "" : `; ${more}${hidden} older nodes are not drawn`;
  return `${more}${count(pages)} ${size} in ${more}${nodes.length} nodes${rest}`;
}

function drawTree({ nodes }: CacheTree, { rows, width }: TreeLayout): SVGSVGElement {
  const scale = (WIDTH - 2) / Math.max(width, 1);
  const used = nodes.filter((node) => node.holders > 0).length;
  const label = `Prefix cache: ${nodes.length} nodes, ${used} of them in use; the table has them`;
  const size = { width: WIDTH, height: rows.length * ROW };
  const links = rows.map((row, index) => drawLink(row, { index, rows, scale }));
  const bars = rows.map((row, index) => drawNode(row, { index, scale }));
  return drawing(label, size, ...links.filter((link) => link !== undefined), ...bars);
}

interface Place {
  readonly index: number;
  /** Units of the drawing for a token. */
  readonly scale: number;
}

/** From the end of the parent down to the beginning of the node. */
function drawLink(
  { start, parentRow }: TreeRow,
  { index, scale }: Place & { readonly rows: readonly TreeRow[] },
): SVGPathElement | undefined {
  if (parentRow === undefined) return undefined;
  const x = at(1 + start * scale);
  const from = at(parentRow * ROW + BAR.y + BAR.height);
  const to = at(index * ROW + BAR.y);
  return svg("path", { class: "tree-link", d: `M${x} ${from}V${to}` });
}

function drawNode({ node, start }: TreeRow, { index, scale }: Place): SVGGElement {
  const y = index * ROW;
  const x = 1 + start * scale;
  const width = Math.max(node.tokens * scale - 1, BAR.least);
  const isUsed = node.holders > 0;
  const words = shorten(node.label);
  // A label that would leave the drawing ends with it instead.
  const needed = (words.length + count(node.tokens).length + 1) * LABEL.size;
  const endsRight = x + LABEL.indent + needed > WIDTH;
  const figure = svg("tspan", { class: "tree-count" }, ` ${count(node.tokens)}`);
  const place = { x: at(endsRight ? WIDTH : x + LABEL.indent), y: at(y + LABEL.y) };
  const anchor = endsRight ? "end" : "start";
  return svg(
    "g",
    { class: isUsed ? "tree-node is-used" : "tree-node" },
    svg("title", {}, title(node.label, node)),
    svg("text", { ...place, "text-anchor": anchor }, words, figure),
    svg("rect", {
      ...{ x: at(x), y: at(y + BAR.y), width: at(width), height: BAR.height },
      rx: Math.min(BAR.height, width) / 2,
    }),
  );
}

function title(label: string, { tokens, pages, holders }: TreeRow["node"]): string {
  const state = holders === 0 ? "cached" : `used by ${holders}`;
  return `${label}\n${count(tokens)} tokens, ${count(pages)} pages, ${state}`;
}

/** One line of it, without the marks of a template where there is anything else. */
function shorten(label: string): string {
  const words = label.replace(/<[|｜][^>]*(>|$)/g, " ");
  const line = (words.trim() === "" ? label : words).replace(/\s+/g, " ").trim();
  if (line === "") return "(no text)";
  const characters = [...line];
  if (characters.length <= LABEL.characters) return line;
  return `${characters.slice(0, LABEL.characters - 1).join("")}…`;
}

/** What the drawing says, for those who do not see it. */
function treeTable({ rows }: TreeLayout): HTMLTableElement {
  return table({
    class: "hidden",
    caption: "Nodes of the prefix cache",
    head: ["First tokens", "Comes after", "Tokens before", "Tokens", "Requests that use it"],
    rows: rows.map(({ node, start, parentRow }) => [
      shorten(node.label),
      parentRow === undefined ? "nothing" : `row ${parentRow + 1}`,
      count(start),
      count(node.tokens),
      String(node.holders),
    ]),
  });
}
