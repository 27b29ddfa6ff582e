/**
 * Markdown as elements of the page.
 *
 * The library `marked` only tells what the text consists of; elements are made here, and text goes
 * into them as text. HTML that a model writes is shown, never read; links lead to http and https
 * addresses only, and pictures are links too, so that no answer makes the browser fetch anything.
 *
 * @module
 */
import { lexer, type MarkedToken, type Token, type Tokens } from "marked";
import { copyButton } from "../app/copy.ts";
import { element, fill } from "../app/dom.ts";

/** What each block of a container was made from, to leave alone what has not changed. */
const blocks = new WeakMap<Element, string[]>();

/** Texts that could not be drawn as Markdown, by where they are shown. */
const undrawn = new WeakMap<Element, string>();
/** Blocks and spans inside of each other: a page's layout has a stack too. */
const MAX_DEPTH = 64;
/** A line of more quotes and lists than that, for which the lexer takes a time of their square. */
const DEEP_LINE = /^(?:[ \t]*(?:>|(?:[*+-]|\d{1,9}[.)])[ \t])){65}/m;

/**
 * Shows `source` in `container`; of a text that has grown, only its end is made anew. What nests too
 * deep for the lexer or for a page is shown as it is: it may be in a chat that is kept, and the page
 * has to open with it.
 */
export function showMarkdown(container: Element, source: string): void {
  const before = undrawn.get(container);
  if (before !== undefined && source.startsWith(before)) {
    showPlain(container, source);
    return;
  }
  undrawn.delete(container);
  try {
    drawMarkdown(container, source);
  } catch {
    undrawn.set(container, source);
    showPlain(container, source);
  }
}

function showPlain(container: Element, source: string): void {
  blocks.delete(container);
  fill(container, element("p", { class: "plain" }, source));
}

function drawMarkdown(container: Element, source: string): void {
  if (DEEP_LINE.test(source)) throw tooDeep();
  // Models end lines where they mean a new one.
  const tokens = shown(lexer(source, { gfm: true, breaks: true }));
  requireShallow(tokens);
  const before = blocks.get(container) ?? [];
  const now = tokens.map(({ raw }) => raw);
  let same = 0;
  while (same < now.length && now[same] === before[same]) same++;
  while (container.childNodes.length > same) container.lastChild!.remove();
  for (const token of tokens.slice(same)) container.append(block(token));
  blocks.set(container, now);
}

/** Without recursion, as nothing is known of their depth. */
function requireShallow(tokens: readonly Token[]): void {
  let level: readonly Token[] = tokens;
  for (let depth = 0; level.length > 0; depth++) {
    if (depth > MAX_DEPTH) throw tooDeep();
    level = level.flatMap(partsOf);
  }
}

function tooDeep(): RangeError {
  return new RangeError("Cannot draw the text: it nests too deep");
}

function partsOf(token: Token): readonly Token[] {
  const { tokens = [], items = [], header = [], rows = [] } = token as Parts;
  return [...tokens, ...items, ...[header, ...rows].flat().flatMap((cell) => cell.tokens)];
}

interface Parts {
  readonly tokens?: readonly Token[];
  readonly items?: readonly Token[];
  readonly header?: readonly Tokens.TableCell[];
  readonly rows?: readonly (readonly Tokens.TableCell[])[];
}

/** Tokens that are something to be seen. No extension has added others to marked's own. */
function shown(tokens: readonly Token[]): readonly MarkedToken[] {
  const own = tokens as readonly MarkedToken[];
  return own.filter(({ type }) => type !== "space" && type !== "def" && type !== "checkbox");
}

function block(token: MarkedToken): Node {
  switch (token.type) {
    case "heading":
      // The page has headings of its own above these.
      return element(`h${Math.min(token.depth + 2, 6) as 3 | 4 | 5 | 6}`, {}, ...inline(token));
    case "paragraph":
      return element("p", {}, ...inline(token));
    case "code":
      return codeBlock(token.text, token.lang);
    case "blockquote":
      return element("blockquote", {}, ...shown(token.tokens).map(block));
    case "list":
      return list(token);
    case "hr":
      return element("hr");
    case "table":
      return table(token);
    case "html":
      return element("p", {}, token.text);
    default:
      return element("p", {}, ...inline(token));
  }
}

/** A block of code with its language and a button that copies it. */
export function codeBlock(text: string, language = ""): HTMLElement {
  const name = language.split(/\s/)[0] ?? "";
  return element(
    "figure",
    { class: "code" },
    element(
      "figcaption",
      {},
      element("span", {}, name || "text"),
      copyButton("Copy code", () => text),
    ),
    // Long lines are scrolled, for which a keyboard needs the focus.
    element("pre", { tabindex: 0, "aria-label": "Code" }, element("code", {}, text)),
  );
}

function list({ ordered, start, items }: Tokens.List): HTMLElement {
  const children = items.map((item) => {
    const content = shown(item.tokens).flatMap(listed);
    if (!item.task) return element("li", {}, ...content);
    const box = element("input", { type: "checkbox", disabled: true, checked: item.checked });
    return element("li", { class: "task" }, box, ...content);
  });
  if (!ordered) return element("ul", {}, ...children);
  return element("ol", { start: start === "" || start === 1 ? undefined : start }, ...children);
}

/** Text of a tight list stands in its item without a paragraph. */
function listed(token: MarkedToken): readonly Node[] {
  return token.type === "text" ? inline(token) : [block(token)];
}

function table({ header, rows }: Tokens.Table): HTMLElement {
  const cells = (row: readonly Tokens.TableCell[], name: "th" | "td") =>
    element("tr", {}, ...row.map((cell) => element(name, alignment(cell), ...inline(cell))));
  const body = rows.map((row) => cells(row, "td"));
  const grid = element(
    "table",
    {},
    element("thead", {}, cells(header, "th")),
    element("tbody", {}, ...body),
  );
  return element("div", { class: "wide", tabindex: 0, role: "group", "aria-label": "Table" }, grid);
}

function alignment({ align }: Tokens.TableCell): { readonly class?: string } {
  return align === null ? {} : { class: `align-${align}` };
}

/** The spans of a token; its text where it has none. */
function inline({ tokens, text: plain, raw }: Spans): readonly Node[] {
  if (tokens === undefined) return [text(plain ?? raw ?? "")];
  return shown(tokens).flatMap(span);
}

interface Spans {
  readonly tokens?: Token[];
  readonly text?: string;
  readonly raw?: string;
}

function span(token: MarkedToken): readonly Node[] {
  switch (token.type) {
    case "strong":
    case "em":
    case "del":
      return [element(token.type, {}, ...inline(token))];
    case "codespan":
      return [element("code", {}, token.text)];
    case "br":
      return [element("br")];
    case "link":
      return link(token.href, inline(token));
    case "image":
      return link(token.href, [text(token.text || token.href)]);
    case "text":
      return inline(token);
    case "escape":
    case "html":
      return [document.createTextNode(token.text)];
    default:
      return [text(token.raw)];
  }
}

/** Any other scheme stays text. */
function link(href: string, children: readonly Node[]): readonly Node[] {
  const url = URL.canParse(href) ? new URL(href) : undefined;
  if (url === undefined || !/^https?:$/.test(url.protocol)) return children;
  const attributes = { href: url.href, target: "_blank", rel: "noopener noreferrer nofollow" };
  return [element("a", attributes, ...children)];
}

const ENTITIES: Readonly<Record<string, string>> = {
  ...{ amp: "&", lt: "<", gt: ">", quot: '"', apos: "'", nbsp: "\u00a0", hellip: "…" },
  ...{ ndash: "–", mdash: "—", times: "×", deg: "°", copy: "©", euro: "€" },
};

/** Plain text, in which Markdown has names for characters. */
function text(source: string): Text {
  const decoded = source.replace(
    /&(?:#(\d{1,7})|#x([\da-f]{1,6})|(\w+));/gi,
    (whole, ten, hex, name) => {
      if (name !== undefined) return ENTITIES[name] ?? whole;
      const code = ten === undefined ? Number.parseInt(hex, 16) : Number(ten);
      return code <= 0x10ffff ? String.fromCodePoint(code) : whole;
    },
  );
  return document.createTextNode(decoded);
}

/** Shows a text as it is, in place of Markdown. */
export function showCode(container: Element, source: string, language: string): void {
  if (blocks.get(container)?.[0] === source) return;
  fill(container, codeBlock(source, language));
  blocks.set(container, [source]);
}
