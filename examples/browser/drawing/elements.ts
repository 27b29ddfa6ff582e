/**
 * Short ways to make elements: HTML, and SVG for drawings.
 *
 * @module
 */

const SVG = "http://www.w3.org/2000/svg";

type Attributes = Readonly<Record<string, string | number | boolean | undefined>>;
type Child = Node | string;

/** An HTML element; `true` sets an attribute without a value, `false` and `undefined` set none. */
export function html<K extends keyof HTMLElementTagNameMap>(
  tag: K,
  attributes: Attributes = {},
  ...children: readonly Child[]
): HTMLElementTagNameMap[K] {
  return fill(document.createElement(tag), attributes, children);
}

/** An SVG element. */
export function svg<K extends keyof SVGElementTagNameMap>(
  tag: K,
  attributes: Attributes = {},
  ...children: readonly Child[]
): SVGElementTagNameMap[K] {
  return fill(document.createElementNS(SVG, tag), attributes, children);
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
  const header = head.map((text) => html("th", { scope: "col" }, text));
  const body = rows.map(([first = "", ...cells]) =>
    html(
      "tr",
      {},
      html("th", { scope: "row" }, first),
      ...cells.map((cell) => html("td", {}, cell)),
    ),
  );
  return html(
    "table",
    { class: name },
    html("caption", {}, caption),
    html("thead", {}, html("tr", {}, ...header)),
    html("tbody", {}, ...body),
  );
}

function fill<E extends Element>(
  element: E,
  attributes: Attributes,
  children: readonly Child[],
): E {
  for (const [name, value] of Object.entries(attributes)) {
    if (value === undefined || value === false) continue;
    element.setAttribute(name, value === true ? "" : String(value));
  }
  element.append(...children);
  return element;
}
