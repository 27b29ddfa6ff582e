/**
 * Engines for pages beside each other: `npm run bench:peers -- browser`.
 *
 * What a page that imports them has to fetch, built and minified by the same bundler; then, where
 * a model can be had without a network, requests and bytes until the first token, and the time, cold
 * and warm (from what the browser has kept). transformers.js runs a random decoder of ours of about
 * as many bytes as the embedded model, so only the fetching and the starting compare, not the speed
 * of a token. web-llm needs a library compiled for each model, which is not in its package: of it
 * there is the size alone.
 *
 * @module
 */
import { readFileSync } from "node:fs";
import { loadavg } from "node:os";
import { fileURLToPath } from "node:url";
import { gzipSync } from "node:zlib";
import type { Browser } from "playwright-core";
import { launchChromium } from "../../test/support/browser/chromium.ts";
import { buildProgram, serveProgram, type Transfer } from "../../test/support/browser/web_page.ts";
import { EMBEDDED_MODEL } from "../../test/support/checkpoints/embedded_model.ts";
import { filesIn } from "../../test/support/server/file_server.ts";
import { table } from "../support/table.ts";
import { onnxDecoder } from "./onnx/onnx_decoder.ts";

const TOKENS = 8;
const ENGINES = { wisp: "wisp", "transformers.js": "transformers_js", "web-llm": "web_llm" };
const SIZES = ["engine", "files", "KiB", "gzip, KiB", "largest file"];
const STARTS = [
  "engine",
  "start",
  "requests",
  "KiB",
  "of these no model",
  "loaded, s",
  "first token, s",
];

interface Started {
  readonly seconds: { readonly loaded: number; readonly firstToken: number };
  readonly tokens: readonly number[];
}

interface Contestant {
  readonly name: string;
  readonly program: string;
  readonly query: string;
  readonly files: ReadonlyMap<string, Uint8Array>;
}

export async function main(): Promise<void> {
  const browser = await launchChromium();
  if (typeof browser === "string") throw new Error(browser);
  try {
    const load = loadavg()[0]!.toFixed(1);
    console.log(`Chromium ${browser.version()}, SwiftShader; load average ${load}`);
    const sizes = Object.entries(ENGINES).map(([name, program]) => sizeOf(name, program));
    console.log(table(SIZES, await Promise.all(sizes)));
    const rows: string[][] = [];
    for (const contestant of contestants()) rows.push(...(await starts(browser, contestant)));
    console.log(table(STARTS, rows));
  } finally {
    await browser.close();
  }
}

const programAt = (name: string) => fileURLToPath(new URL(`pages/${name}.mjs`, import.meta.url));
const kibi = (bytes: number) => (bytes / 1024).toFixed(0);
const totalOf = (transfers: readonly Transfer[]) =>
  transfers.reduce((sum, { bytes }) => sum + bytes, 0);

/** Everything that the bundler makes of a page; not all of it is fetched by every visitor. */
async function sizeOf(name: string, program: string): Promise<string[]> {
  const files = await buildProgram(programAt(program), { minify: true });
  const sizes = [...files].map(([path, bytes]) => ({
    path,
    bytes: bytes.length,
    gz: gzipSync(bytes).length,
  }));
  const largest = sizes.reduce((most, file) => (file.bytes > most.bytes ? file : most));
  const sum = (of: "bytes" | "gz") => kibi(sizes.reduce((total, file) => total + file[of], 0));
  return [
    name,
    `${sizes.length}`,
    sum("bytes"),
    sum("gz"),
    `${largest.path} ${kibi(largest.bytes)} KiB`,
  ];
}

/** Those whose model can be made here. */
function contestants(): readonly Contestant[] {
  const embedded = filesIn(EMBEDDED_MODEL);
  const under = (folder: string, files: Iterable<readonly [string, Uint8Array]>) =>
    [...files].map(([name, bytes]) => [`${folder}/${name}`, bytes] as const);
  const { vocab_size, eos_token_id } = JSON.parse(
    readFileSync(`${EMBEDDED_MODEL}/config.json`, "utf8"),
  ) as { readonly vocab_size: number; readonly eos_token_id: number };
  const { config, model } = onnxDecoder(vocab_size, eos_token_id);
  const theirs = new Map([
    ...under(
      "model",
      [...embedded].filter(([name]) => name.startsWith("tokenizer")),
    ),
    ["model/config.json", config] as const,
    ["model/onnx/model.onnx", model] as const,
    ...under("ort", filesIn(ortFolder())),
  ]);
  return [
    { name: "wisp", program: "wisp", query: "", files: new Map(under("model", embedded)) },
    ...["wasm", "webgpu"].map((device) => ({
      name: `transformers.js, ${device}`,
      program: "transformers_js",
      query: `?device=${device}`,
      files: theirs,
    })),
  ];
}

/** Where npm has put the runtime that transformers.js takes its computing from. */
function ortFolder(): string {
  return fileURLToPath(new URL("node_modules/onnxruntime-web/dist", import.meta.url));
}

/** A first visit in a browser that has kept nothing, and a second one. */
async function starts(browser: Browser, contestant: Contestant): Promise<string[][]> {
  const { name, program, query, files } = contestant;
  const server = await serveProgram(programAt(program), {
    files,
    minify: true,
    headers: { "cache-control": "max-age=3600" },
  });
  const context = await browser.newContext();
  const rows: string[][] = [];
  let tokens: readonly number[] | undefined;
  for (const start of ["cold", "warm"]) {
    server.again();
    server.traffic();
    const page = await context.newPage();
    await page.goto(server.address + query);
    const found = await server.report<Started>();
    await page.close();
    const transfers = server.traffic();
    tokens ??= found.tokens;
    if (found.tokens.length !== TOKENS || found.tokens.join() !== tokens.join()) {
      throw new Error(`${name} says [${found.tokens}], [${tokens}] before`);
    }
    const others = transfers.filter(({ path }) => !path.startsWith("model/"));
    const sizes = [totalOf(transfers), totalOf(others)].map(kibi);
    const times = [found.seconds.loaded, found.seconds.firstToken].map((time) => time.toFixed(2));
    rows.push([name, start, `${transfers.length}`, ...sizes, ...times]);
  }
  await context.close();
  await server.close();
  return rows;
}
