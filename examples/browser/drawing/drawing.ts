/**
 * Makes drawings, and the tables that say the same.
 *
 * @module
 */

import { element } from "../app/dom.ts";

const SVG = "http://www.w3.org/2000/svg";

type Attributes = Readonly<Record<string, string | number | undefined>>;
type Child = Node | string;

/** An SVG element. */
export function svg<Name extends keyof SVGElementTagNameMap>(
  name: Name,
  attributes: Attributes = {},
  ...children: readonly Child[]
): SVGElementTagNameMap[Name] {
  const node = document.createElementNS(SVG, name);
  for (const [key, value] of Object.entries(attributes)) {
    if (value !== undefined) node.setAttribute(key, String(value));
  }
  node.append(...children);
  return node;
}

/** Coordinates of a drawing: a hundredth of a unit is finer than a pixel. */
export function at(value: number): string {
  return String(Math.round(value * 100) / 100);
}

/** A drawing that reads as its label; what it says in full stands in a table beside it. */
export function drawing(
  label: string,
  { width, height }: { readonly width: number; readonly height: number },
  ...children: readonly Child[]
): SVGSVGElement {
  const viewBox = `0 0 ${at(width)} ${at(height)}`;
  return svg("svg", { class: "drawing", viewBox, role: "img", "aria-label": label }, ...children);
}

export interface TableOptions {
  readonly caption: string;
  readonly head: readonly string[];
  readonly rows: readonly (readonly string[])[];
  readonly class?: string;
}

/** A table whose first column names its rows and whose others are figures. */
export function table({ caption, head, rows, class: name }: TableOptions): HTMLTableElement {
  const header = head.map((text) => element("th", { scope: "col" }, text));
  const body = rows.map(([first = "", ...cells]) =>
    element(
      "tr",
      {},
      element("th", { scope: "row" }, first),
      ...cells.map((cell) => element("td", {}, cell)),
    ),
  );
  return element(
    "table",
    { class: name },
    element("caption", {}, caption),
    element("thead", {}, element("tr", {}, ...header)),
    element("tbody", {}, ...body),
  );
}

/** Holds what may be larger than its place, and can be scrolled with the keyboard too. */
export function scroller(label: string, content: Node): HTMLElement {
  const named = { class: "scroller", role: "region", "aria-label": label, tabindex: 0 };
  return element("div", named, content);
}
