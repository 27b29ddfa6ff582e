import { spawnSync } from "node:child_process";
import { copyFileSync, mkdirSync, mkdtempSync, rmSync, symlinkSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { dirname, join } from "node:path";
import { fileURLToPath } from "node:url";
import { afterAll, beforeAll, expect, test } from "vitest";

const root = fileURLToPath(new URL("..", import.meta.url));
const consumer = mkdtempSync(join(tmpdir(), "wisp-consumer-"));
const installed = join(consumer, "node_modules", "wisp-llm");

/** Dependencies that an installation would bring along, and what the consumer itself has. */
const NEIGHBOURS = [
  "hono",
  "@hono",
  "webgpu",
  "@webgpu",
  "@huggingface",
  "@noble",
  "gpt-tokenizer",
  "prom-client",
  "@opentelemetry",
  "tdigest",
  "bintrees",
  "@types",
];

const PROGRAM = `
import { createApp, type GenerationEngine, type WeightSource } from "wisp-llm";
import { openDevice as openInBrowser } from "wisp-llm/browser";
import { openDevice, openFolder, serve } from "wisp-llm/node";

export async function main(engine: GenerationEngine): Promise<void> {
  const source: WeightSource = await openFolder("model");
  const { device, adapter } = await openDevice({ adapter: "auto" });
  const devices: readonly GPUDevice[] = [device, await openInBrowser()];
  const server = await serve(createApp(engine), { host: "127.0.0.1", port: 0 });
  for await (const { text } of engine.generate({ prompt: source.name })) {
    console.log(text satisfies string, adapter.isCpu, devices.length, server.url);
  }
}
`;

/** Token 0 ends a text, the others are the single bytes. */
const GRAMMAR_PROGRAM = `
import { workerGrammarService } from "wisp-llm/node";

process.on("worker", () => console.log("a thread"));
const tokens = { size: 256, bytes: (id) => Uint8Array.of(id), isSpecial: () => false };
const service = workerGrammarService({ tokens, endTokens: [0], vocabularySize: 256 });
const session = await service.open({ kind: "regex", source: "[bc]a" });
for (const next of [[], [98, 97]]) {
  const { mask } = await session.advance(next);
  console.log([...Array(256).keys()].filter((id) => (mask[id >>> 5] >>> id) & 1));
}
`;

function run(program: string, args: readonly string[], cwd: string) {
  const { status, stdout, stderr } = spawnSync(process.execPath, [program, ...args], {
    cwd,
    encoding: "utf8",
    timeout: 60_000,
    env: { ...process.env, VITEST: undefined, NODE_ENV: undefined },
  });
  return { status, output: stdout + stderr };
}

const done = (output = "") => ({ status: 0, output: expect.stringContaining(output) });
const tsc = join(root, "node_modules", "typescript", "bin", "tsc");

beforeAll(() => {
  mkdirSync(installed, { recursive: true });
  copyFileSync(join(root, "package.json"), join(installed, "package.json"));
  writeFileSync(join(consumer, "package.json"), '{ "type": "module" }');
  writeFileSync(join(consumer, "main.ts"), PROGRAM);
  for (const name of NEIGHBOURS) {
    symlinkSync(join(root, "node_modules", name), join(consumer, "node_modules", name));
  }
  const vite = join(root, "node_modules", "vite", "bin", "vite.js");
  const outDir = join(installed, "dist");
  const built = run(vite, ["build", "--outDir", outDir, "--logLevel", "error"], root);
  expect(built).toEqual(done());
  const declared = run(tsc, ["-p", "tsconfig.build.json", "--outDir", join(outDir, "types")], root);
  expect(declared).toEqual(done());
});

afterAll(() => {
  rmSync(consumer, { recursive: true });
});

test.each(["nodenext", "bundler"])(
  "a strict consumer compiles with module resolution %s",
  (kind) => {
    const compilerOptions = {
      strict: true,
      exactOptionalPropertyTypes: true,
      noUncheckedIndexedAccess: true,
      skipLibCheck: false,
      noEmit: true,
      target: "es2022",
      module: kind === "bundler" ? "esnext" : kind,
      moduleResolution: kind,
      lib: ["es2023", "dom", "dom.iterable", "dom.asynciterable"],
      types: ["node"],
    };
    const config = join(consumer, `tsconfig.${kind}.json`);
    writeFileSync(config, JSON.stringify({ compilerOptions, files: ["main.ts"] }));
    expect(run(tsc, ["-p", config], consumer)).toEqual(done());
  },
);

test("the built entries load in Node", () => {
  const program = join(consumer, "load.js");
  const names = ["wisp-llm", "wisp-llm/node", "wisp-llm/browser"];
  writeFileSync(program, names.map((name) => `await import("${name}");`).join("\n"));
  expect(run(program, [], dirname(program))).toEqual(done());
});

test("the built package follows grammars in a thread, which keeps no process alive", () => {
  const program = join(consumer, "grammar.js");
  writeFileSync(program, GRAMMAR_PROGRAM);
  expect(run(program, [], consumer)).toEqual({
    status: 0,
    output: "a thread\n[ 98, 99 ]\n[ 0 ]\n",
  });
});

test("the built program runs", () => {
  const wisp = join(installed, "dist", "wisp.js");
  expect(run(wisp, ["--version"], consumer)).toEqual(done("0."));
  expect(run(wisp, ["launch_server", "--help"], consumer)).toEqual(done("--model-path"));
  expect(run(wisp, ["launch_server", "--model", "/no/such/folder"], consumer)).toEqual({
    status: 1,
    output: "Cannot load /no/such/folder: there is no such folder on this machine\n",
  });
});
