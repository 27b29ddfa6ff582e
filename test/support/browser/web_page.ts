/**
 * A page with one program of ours, built by Vite and served beside a model. The program posts what
 * it found to the server it came from, so that any browser can be asked, also one that no test
 * can drive.
 *
 * @module
 */
import type { IncomingMessage } from "node:http";
import { fileURLToPath } from "node:url";
import { build, type Rolldown } from "vite";
import { type FileServer, filesIn, serveFiles } from "../server/file_server.ts";

const ROOT = fileURLToPath(new URL("../../..", import.meta.url));
const PAGE = `<!doctype html>
<link rel="icon" href="data:," />
<script>
  // What no program catches: a module that cannot be loaded, say.
  addEventListener("error", ({ message, target }) => {
    const problem = message ?? "cannot load " + target.src;
    fetch("report", { method: "POST", body: JSON.stringify({ problem }) });
  }, true);
</script>
<script type="module" src="./main.js"></script>`;

/** What a program posts: what it was asked for, or what went wrong. */
type Report<T> = { readonly found: T } | { readonly problem: string };

export interface WebPage extends FileServer {
  /** Address of the page, to which a query may be added. */
  readonly address: string;
  /**
   * What the program found, once it has posted it.
   *
   * @throws {Error} with what went wrong in the page.
   */
  report<T>(): Promise<T>;
  /** The same for one more visit: reports before this call no longer count. */
  again(): void;
  /** What was asked for since the last call, and the bytes that were sent, without headers. */
  traffic(): readonly Transfer[];
}

export interface Transfer {
  /** Without the slash in front. */
  readonly path: string;
  readonly bytes: number;
}

export interface WebPageOptions extends BuildOptions {
  /** A folder to serve under `model/`. */
  readonly model?: string;
  /** Whatever else is to be served. */
  readonly files?: ReadonlyMap<string, Uint8Array>;
  /** Sent with every answer. */
  readonly headers?: Readonly<Record<string, string>>;
}

export interface BuildOptions {
  /** As for visitors of a page, whom each byte costs. Default false. */
  readonly minify?: boolean;
}

/** Builds the page of `program`, the path of a TypeScript module, and serves it. */
export async function serveProgram(
  program: string,
  { model, files: others, headers = {}, minify = false }: WebPageOptions = {},
): Promise<WebPage> {
  const files = new Map([...(await buildProgram(program, { minify })), ...(others ?? [])]);
  files.set("index.html", Buffer.from(PAGE));
  for (const [name, bytes] of model === undefined ? [] : filesIn(model)) {
    files.set(`model/${name}`, bytes);
  }
  let visit = promised<string>();
  const transfers: Transfer[] = [];
  const server = await serveFiles(files, {
    headers,
    intercept: (request, response) => {
      if (request.method !== "POST" || request.url !== "/report") {
        response.on("finish", () => {
          const sent = request.method === "GET" ? Number(response.getHeader("content-length")) : 0;
          transfers.push({ path: request.url!.slice(1), bytes: sent || 0 });
        });
        return false;
      }
      void bodyOf(request).then((text) => {
        visit.resolve(text);
        response.end();
      });
      return true;
    },
  });
  return {
    ...server,
    address: `${server.url}index.html`,
    report: async <T>() => {
      const report = JSON.parse(await visit.promise) as Report<T>;
      if ("problem" in report) throw new Error(`In the page: ${report.problem}`);
      return report.found;
    },
    again: () => {
      visit = promised();
    },
    traffic: () => transfers.splice(0),
  };
}

/** The files of a program, of which `main.js` is to be run first. */
export async function buildProgram(
  program: string,
  { minify = false }: BuildOptions = {},
): Promise<ReadonlyMap<string, Uint8Array>> {
  const built = await build({
    root: ROOT,
    base: "./",
    configFile: false,
    publicDir: false,
    logLevel: "error",
    resolve: { tsconfigPaths: true },
    worker: { format: "es" },
    build: {
      write: false,
      target: "es2022",
      minify,
      rolldownOptions: { input: program, output: { entryFileNames: "main.js" } },
    },
  });
  const { output } = built as Rolldown.RolldownOutput;
  return new Map(
    output.map((file) => [
      file.fileName,
      Buffer.from(file.type === "chunk" ? file.code : file.source),
    ]),
  );
}

function promised<T>(): { readonly promise: Promise<T>; readonly resolve: (value: T) => void } {
  let resolve: (value: T) => void = () => {};
  const promise = new Promise<T>((settle) => {
    resolve = settle;
  });
  return { promise, resolve };
}

async function bodyOf(request: IncomingMessage): Promise<string> {
  const chunks: Buffer[] = [];
  for await (const chunk of request) chunks.push(chunk as Buffer);
  return Buffer.concat(chunks).toString("utf8");
}
