/**
 * Makes elements. Text is always text: nothing here reads a string as HTML.
 *
 * @module
 */

export type Child = Node | string | false | null | undefined;

type Listener = (event: never) => void;

/**
 * Attributes by their names; `style` is set by properties, which a page's policy allows. `true` is an attribute without a value; false and undefined are none; a
 * function under `onclick`, `oninput`, .. is a listener.
 */
export type Attributes = Readonly<Record<string, string | number | boolean | undefined | Listener>>;

export function element<Name extends keyof HTMLElementTagNameMap>(
  name: Name,
  attributes: Attributes = {},
  ...children: readonly Child[]
): HTMLElementTagNameMap[Name] {
  const node = document.createElement(name);
  for (const [key, value] of Object.entries(attributes)) {
    if (typeof value === "function") {
      node.addEventListener(key.slice(2), value as (event: Event) => void);
    } else if (key === "style") node.style.cssText = String(value);
    else if (value === true) node.setAttribute(key, "");
    else if (value !== false && value !== undefined) node.setAttribute(key, String(value));
  }
  node.append(...present(children));
  return node;
}

/** Puts these in place of what `parent` has. */
export function fill(parent: Element, ...children: readonly Child[]): void {
  parent.replaceChildren(...present(children));
}

/** Writes only what changes, so that selections and screen readers are left alone. */
export function setText(node: Element, text: string): void {
  if (node.textContent !== text) node.textContent = text;
}

/** @throws {Error} when the page has none: a fault of the page itself. */
export function byId<Type extends HTMLElement>(id: string): Type {
  const found = document.getElementById(id);
  if (found === null) throw new Error(`Cannot find #${id}: the page has none`);
  return found as Type;
}

function present(children: readonly Child[]): (Node | string)[] {
  return children.filter(
    (child): child is Node | string => child !== false && child !== null && child !== undefined,
  );
}
