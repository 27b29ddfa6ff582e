/**
 * The engine and the app of endpoints, built with a hook at every `await` and at every allocation: a
 * test sees each of them, and can have it fail.
 *
 * @module
 */
import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join, relative } from "node:path";
import { fileURLToPath, pathToFileURL } from "node:url";
import { build, type Plugin, parseAst } from "vite";
import { isNode, type Node, nodesOf } from "../syntax_nodes.ts";

const ROOT = fileURLToPath(new URL("../../../", import.meta.url));
/** Whose awaits are watched. */
const WATCHED = /^src\/(cache|engine|http|server)\//;
const HOOK = "wispAwait";
/** Whose allocations are, beside those. */
const ALLOCATING = /^src\/(cache|engine|gpu|http|layers|server)\//;
const ALLOCATION_HOOK = "wispAllocation";
/** Memory of the host, objects of the device, and pages. */
const ARRAYS = /^((Shared)?ArrayBuffer|(Big)?(Ui|I)nt\d+(Clamped)?Array|Float\d+Array)$/;
const ALLOCATIONS =
  /^(allocate|create(Buffer|BindGroup|ComputePipeline|ComputePipelineAsync|CommandEncoder|QuerySet|ShaderModule))$/;

/** Files that tests begin with; they share no class with the sources that a test imports itself. */
export interface WatchedModules {
  readonly errors: typeof import("../../../src/errors.ts");
  readonly "engine/engine": typeof import("../../../src/engine/engine.ts");
  readonly "engine/ranks/rank_leader": typeof import("../../../src/engine/ranks/rank_leader.ts");
  readonly "engine/ranks/follow_steps": typeof import("../../../src/engine/ranks/follow_steps.ts");
  readonly "parallel/local": typeof import("../../../src/parallel/local.ts");
  readonly "engine/schedule/new_token_estimate": typeof import("../../../src/engine/schedule/new_token_estimate.ts");
  readonly "node/observe/profile_files": typeof import("../../../src/node/observe/profile_files.ts");
  readonly "node/observe/expert_record_files": typeof import("../../../src/node/observe/expert_record_files.ts");
  readonly "server/app": typeof import("../../../src/server/app.ts");
  readonly "engine/remote/port": typeof import("../../../src/engine/remote/port.ts");
  readonly "engine/remote/remote_engine": typeof import("../../../src/engine/remote/remote_engine.ts");
  readonly "engine/remote/serve_engine": typeof import("../../../src/engine/remote/serve_engine.ts");
  readonly "engine/text/remote_text_service": typeof import("../../../src/engine/text/remote_text_service.ts");
  readonly "engine/text/serve_text": typeof import("../../../src/engine/text/serve_text.ts");
  readonly "engine/text/text_files": typeof import("../../../src/engine/text/text_files.ts");
  readonly "engine/grammar/remote_grammar_service": typeof import("../../../src/engine/grammar/remote_grammar_service.ts");
  readonly "engine/grammar/serve_grammars": typeof import("../../../src/engine/grammar/serve_grammars.ts");
}

const NAMES: readonly (keyof WatchedModules)[] = [
  ...(["engine/engine", "server/app", "engine/remote/port"] as const),
  ...(["engine/remote/remote_engine", "engine/remote/serve_engine"] as const),
  ...(["engine/text/remote_text_service", "engine/text/serve_text"] as const),
  ...(["engine/text/text_files", "engine/grammar/remote_grammar_service"] as const),
  ...(["engine/grammar/serve_grammars", "engine/schedule/new_token_estimate"] as const),
  ...(["engine/ranks/rank_leader", "engine/ranks/follow_steps", "parallel/local"] as const),
  ...(["node/observe/profile_files", "node/observe/expert_record_files", "errors"] as const),
];

/**
 * Called with what is awaited, which it gives back, or something in its place.
 *
 * @param site The file and the code of the line.
 */
export type AwaitHook = (site: string, awaited: unknown) => unknown;

/** Called before what is at a site is allocated. */
export type AllocationHook = (site: string) => void;

export interface WatchedSources {
  readonly modules: WatchedModules;
  /** Each `await` of the watched sources. */
  readonly sites: readonly string[];
  setHook(hook: AwaitHook | undefined): void;
  setAllocationHook(hook: AllocationHook | undefined): void;
}

/** Builds and imports them. */
export async function watchedSources(): Promise<WatchedSources> {
  const outDir = mkdtempSync(join(tmpdir(), "wisp-awaits-"));
  const sites: string[] = [];
  const fileOf = (name: string) => name.replaceAll("/", "-");
  try {
    await build({
      root: ROOT,
      configFile: false,
      logLevel: "error",
      plugins: [watching(sites)],
      build: {
        outDir,
        target: "es2022",
        minify: false,
        lib: {
          entry: Object.fromEntries(
            NAMES.map((name) => [fileOf(name), join(ROOT, "src", `${name}.ts`)]),
          ),
          formats: ["es"],
          fileName: (_, name) => `${name}.mjs`,
        },
        // Tables of tokenizers are megabytes, and are asked for by name alone.
        rolldownOptions: { external: /^(node:|gpt-tokenizer)/ },
      },
    });
    const load = async (name: string) => {
      const url = pathToFileURL(join(outDir, `${fileOf(name)}.mjs`)).href;
      return [name, await import(/* @vite-ignore */ url)] as const;
    };
    const modules = Object.fromEntries(await Promise.all(NAMES.map(load))) as WatchedModules;
    return { modules, sites, setHook, setAllocationHook };
  } finally {
    rmSync(outDir, { recursive: true, force: true });
  }
}

function setHook(hook: AwaitHook | undefined): void {
  (globalThis as Record<string, unknown>)[HOOK] = hook;
}

function setAllocationHook(hook: AllocationHook | undefined): void {
  (globalThis as Record<string, unknown>)[ALLOCATION_HOOK] = hook;
}

/** @param sites Is given each that is found. */
function watching(sites: string[]): Plugin {
  return {
    name: "wisp-watched-awaits",
    enforce: "pre",
    transform(code, id) {
      const path = relative(ROOT, id);
      if (!WATCHED.test(path) && !ALLOCATING.test(path)) return undefined;
      const watched = withHooks(code, path);
      for (const site of watched.sites) sites.push(site);
      return { code: watched.code, map: null };
    },
  };
}

/** Passes what is awaited through the hook. */
const PASS = `(globalThis.${HOOK} ?? ((_, awaited) => awaited))`;

/** An iterable whose steps pass through the hook. */
function loopOver(site: string): string {
  const next = `next: () => ${PASS}(${site}, steps.next())`;
  const end = "return: () => steps.return?.() ?? Promise.resolve({ done: true, value: undefined })";
  const begin = `() => { const steps = items[Symbol.asyncIterator](); return { ${next}, ${end} }; }`;
  return `((items) => ({ [Symbol.asyncIterator]: ${begin} }))(`;
}

/** What is to be put into code, at a place. */
interface Insert {
  readonly at: number;
  readonly text: string;
}

/** The code of the line of a node, told apart from others that are written alike. */
function siteOf(node: Node, { code, path, seen }: SitesOfFile): string {
  const start = code.lastIndexOf("\n", node.start) + 1;
  const line = `${path}: ${code.slice(start, code.indexOf("\n", node.start)).trim()}`;
  const same = seen.get(line) ?? 0;
  seen.set(line, same + 1);
  return same === 0 ? line : `${line} (${same + 1})`;
}

interface SitesOfFile {
  readonly code: string;
  readonly path: string;
  readonly seen: Map<string, number>;
}

/** Whether an expression allocates, by its name. */
function allocates(node: Node): boolean {
  const { type, callee } = node;
  if (!isNode(callee)) return false;
  if (type === "NewExpression") return ARRAYS.test(String(callee.name));
  if (type !== "CallExpression" || !isNode(callee.property)) return false;
  return ALLOCATIONS.test(String(callee.property.name));
}

/** The same code whose awaits, those of loops too, and allocations pass through their hooks. */
export function withHooks(
  code: string,
  path: string,
): { readonly code: string; readonly sites: readonly string[] } {
  const inserts: Insert[] = [];
  const sites: string[] = [];
  const awaits = { code, path, seen: new Map<string, number>() };
  const allocations = { ...awaits, seen: new Map<string, number>() };
  for (const node of nodesOf(parseAst(code, { lang: "ts" }))) {
    if (ALLOCATING.test(path) && allocates(node)) {
      const name = JSON.stringify(siteOf(node, allocations));
      inserts.push({ at: node.start, text: `(globalThis.${ALLOCATION_HOOK}?.(${name}), ` });
      inserts.push({ at: node.end as number, text: ")" });
    }
    const isLoop = node.type === "ForOfStatement" && node.await === true;
    const awaited = isLoop ? node.right : node.type === "AwaitExpression" && node.argument;
    if (!isNode(awaited) || !WATCHED.test(path)) continue;
    const site = siteOf(node, awaits);
    sites.push(site);
    const name = JSON.stringify(site);
    inserts.push({ at: awaited.start, text: isLoop ? loopOver(name) : `${PASS}(${name}, ` });
    inserts.push({ at: awaited.end as number, text: ")" });
  }
  return { code: withInserts(code, inserts), sites };
}

function withInserts(code: string, inserts: readonly Insert[]): string {
  // What begins at one place begins with the outer one, which was found first.
  const ordered = inserts.map((insert, order) => ({ ...insert, order }));
  ordered.sort((a, b) => a.at - b.at || a.order - b.order);
  let written = "";
  let from = 0;
  for (const { at, text } of ordered) {
    written += code.slice(from, at) + text;
    from = at;
  }
  return written + code.slice(from);
}
