import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import type { Browser, Page } from "playwright-core";
import { build } from "vite";
import { afterAll, beforeAll, expect, type TestContext, test } from "vitest";
import { launchChromium } from "../../support/browser/chromium.ts";
import { type FileServer, filesIn, serveFiles } from "../../support/server/file_server.ts";

const MODULE = fileURLToPath(
  new URL("../../../examples/browser/chat/markdown.ts", import.meta.url),
);
const PAGE =
  '<!doctype html><link rel="icon" href="data:,"><p id="status"></p><main></main><script type="module">import { showMarkdown } from "./markdown.js"; Object.assign(globalThis, { showMarkdown });</script>';

let browser: Browser | undefined;
let whyNoBrowser = "";
let server: FileServer;
let page: Page;
const visited: string[] = [];

/** The module alone on a page: no model, no app. */
beforeAll(async () => {
  const launched = await launchChromium();
  if (typeof launched === "string") {
    whyNoBrowser = launched;
    return;
  }
  browser = launched;
  const outDir = mkdtempSync(join(tmpdir(), "wisp-markdown-"));
  await build({
    configFile: false,
    logLevel: "error",
    build: { outDir, lib: { entry: MODULE, formats: ["es"], fileName: () => "markdown.js" } },
  });
  const files = new Map(filesIn(outDir));
  rmSync(outDir, { recursive: true });
  server = await serveFiles(files.set("index.html", new TextEncoder().encode(PAGE)));
  page = await browser.newPage();
  await page.goto(`${server.url}index.html`);
  await page.waitForFunction(() => "showMarkdown" in globalThis);
  page.on("request", (request) => visited.push(request.url()));
});

afterAll(async () => {
  await browser?.close();
  await server?.close();
});

/** The HTML that these texts, one after the other, end up as. */
async function shown(context: TestContext, ...sources: readonly string[]): Promise<string> {
  if (browser === undefined) return context.skip(whyNoBrowser);
  return page.evaluate((texts) => {
    const { showMarkdown } = globalThis as unknown as {
      showMarkdown: (container: Element, source: string) => void;
    };
    const container = document.createElement("div");
    document.querySelector("main")!.replaceChildren(container);
    for (const text of texts) showMarkdown(container, text);
    return container.innerHTML;
  }, sources);
}

test.for([
  "<script>window.hit = 1</script>",
  "<img src=x onerror='window.hit = 1'>",
  "text <img src=x onerror='window.hit = 1'> text",
  "<svg onload='window.hit = 1'></svg>",
  "<iframe srcdoc='<script>parent.hit = 1</script>'></iframe>",
  "<a href='javascript:window.hit = 1'>click</a>",
  "[click](javascript:window.hit=1)",
  "[click](JaVaScRiPt:window.hit=1)",
  "[click](&#106;avascript:window.hit=1)",
  "[click](data:text/html,<script>parent.hit=1</script>)",
  "[click](vbscript:x)",
  "<javascript:window.hit=1>",
  "[x]: javascript:window.hit=1\n\n[click][x]",
  "![x](https://tracker.invalid/pixel.png)",
  "![x](javascript:window.hit=1)",
  "```<img onerror=alert(1)>\n<script>window.hit = 1</script>\n```",
  "`<img src=x onerror='window.hit = 1'>`",
  "| <img src=x onerror='window.hit = 1'> |\n|---|\n| <script>window.hit = 1</script> |",
  "# <style>* { display: none }</style>",
  "&lt;script&gt;window.hit = 1&lt;/script&gt;",
  "<form action='https://tracker.invalid'><button>go</button></form>",
  "<!-- --><base href='https://tracker.invalid/'>",
])("no answer gets into the page: %s", async (source, context) => {
  await shown(context, source);
  visited.length = 0;
  const found = await page.evaluate(async () => {
    const main = document.querySelector("main")!;
    for (const link of main.querySelectorAll("a")) link.removeAttribute("target");
    await new Promise((resolve) => setTimeout(resolve, 20));
    return {
      hit: "hit" in globalThis,
      elements: [...main.querySelectorAll("*")].map(({ localName }) => localName),
      handlers: [...main.querySelectorAll("*")].flatMap((node) =>
        node.getAttributeNames().filter((name) => name.startsWith("on") || name === "style"),
      ),
      links: [...main.querySelectorAll("a")].map(({ protocol, rel }) => `${protocol} ${rel}`),
    };
  });
  const bad = ["script", "img", "iframe", "style", "form", "base", "object", "embed", "input"];
  expect(found.elements.filter((name) => bad.includes(name))).toEqual([]);
  expect(found.links.every((link) => /^https?: noopener noreferrer nofollow$/.test(link))).toBe(
    true,
  );
  expect(found).toMatchObject({ hit: false, handlers: [] });
  expect(visited).toEqual([]);
});

test.for<[string, string]>([
  [
    "# A\n\ntext **b** *i* ~~d~~ `c`",
    "<h3>A</h3><p>text <strong>b</strong> <em>i</em> <del>d</del> <code>c</code></p>",
  ],
  ["1 < 2 & 3 > 2", "<p>1 &lt; 2 &amp; 3 &gt; 2</p>"],
  ["<b>bold</b> &amp; &lt;i&gt; &#65;&#x42;", "<p>&lt;b&gt;bold&lt;/b&gt; &amp; &lt;i&gt; AB</p>"],
  ["- a\n- b\n  1. c", "<ul><li>a</li><li>b<ol><li>c</li></ol></li></ul>"],
  ["3. a\n4. b", '<ol start="3"><li>a</li><li>b</li></ol>'],
  ["> a\n>\n> b", "<blockquote><p>a</p><p>b</p></blockquote>"],
  ["a  \nb\n\n---", "<p>a<br>b</p><hr>"],
  [
    "[a](https://example.org/?a=1&b=2)",
    '<p><a href="https://example.org/?a=1&amp;b=2" target="_blank" rel="noopener noreferrer nofollow">a</a></p>',
  ],
  ["[a](mailto:a@b.c)", "<p>a</p>"],
  ["[a](./path)", "<p>a</p>"],
])("Markdown is shown as elements: %s", async ([source, html], context) => {
  expect(await shown(context, source)).toBe(html);
});

test("code has a language, a button that copies it, and stays text", async (context) => {
  const html = await shown(context, "```ts\nconst a = 1 < 2;\n```");
  expect(html).toContain("<span>ts</span>");
  expect(html).toContain("<code>const a = 1 &lt; 2;</code>");
  expect(await page.getByRole("button", { name: "Copy code" }).count()).toBe(1);
});

test("a text that grows becomes what it would be at once, and its beginning is left alone", async (context) => {
  const source =
    "# A\n\nFirst **one**.\n\n- a\n- b\n\n```js\nlet x;\n```\n\n| a | b |\n|---|---|\n| 1 | 2 |\n";
  const whole = await shown(context, source);
  const prefixes = Array.from(source, (_, i) => source.slice(0, i + 1));
  expect(await shown(context, ...prefixes)).toBe(whole);
  const kept = await page.evaluate((text) => {
    const { showMarkdown } = globalThis as unknown as {
      showMarkdown: (container: Element, source: string) => void;
    };
    const container = document.createElement("div");
    showMarkdown(container, `${text}\nmore`);
    const first = container.firstChild;
    showMarkdown(container, `${text}\nmore and more`);
    return first === container.firstChild;
  }, source);
  expect(kept).toBe(true);
});

test.for([
  ["quotes", "> ".repeat(20_000)],
  ["lists", "- ".repeat(20_000)],
  ["65 quotes", "> ".repeat(65)],
  ["lines", Array.from({ length: 80 }, (_, i) => `${"  ".repeat(i)}- a\n`).join("")],
] as const)(
  "what nests too deep is shown as it is, and what comes after it as ever: %s",
  async ([, deep], context) => {
    const source = `${deep}x < y`;
    const escaped = source.replaceAll(">", "&gt;").replaceAll("<", "&lt;");
    const plain = `<p class="plain">${escaped}</p>`;
    expect(await shown(context, "before", source)).toBe(plain);
    expect(await shown(context, source, `${source} more`)).toBe(plain.replace("</p>", " more</p>"));
    expect(await shown(context, source, "**after**")).toBe("<p><strong>after</strong></p>");
  },
);
