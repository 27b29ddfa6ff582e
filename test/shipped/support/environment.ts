/**
 * What each variable of the documents does in an installed program, as checks that any installation can
 * be put to.
 *
 * @module
 */
import { once } from "node:events";
import {
  copyFileSync,
  cpSync,
  mkdirSync,
  readdirSync,
  readFileSync,
  symlinkSync,
  writeFileSync,
} from "node:fs";
import { createServer } from "node:http";
import type { AddressInfo } from "node:net";
import { join } from "node:path";
import { expect } from "vitest";
import { EMBEDDED_MODEL } from "../../support/checkpoints/embedded_model.ts";
import { type HubModel, serveHub } from "../../support/server/hub_server.ts";
import { program, scratch, serveWisp, wisp } from "./wisp.ts";

/** @param folder The installation, or that of the tarball. */
export type VariableCheck = (folder?: string) => Promise<void>;

/** Compiles a kernel, and says where the driver keeps it. */
const FIRST_SHADER = `
  import { openDevice } from "wisp-llm/node";
  const { device } = await openDevice();
  const code = "@compute @workgroup_size(1) fn main() {}";
  const compute = { module: device.createShaderModule({ code }) };
  device.createComputePipeline({ layout: "auto", compute });
  await device.queue.onSubmittedWorkDone();
  console.log(process.env.MESA_SHADER_CACHE_DIR);
  process.exit(0);
`;

const ID = "org/embedded";
const TOKEN = "hf_secret";

/** The embedded checkpoint as a hub has it. */
export function embeddedOnHub(): HubModel {
  const names = readdirSync(EMBEDDED_MODEL);
  const files = new Map(names.map((name) => [name, readFileSync(join(EMBEDDED_MODEL, name))]));
  return { id: ID, commit: "c0ffee".padEnd(40, "0"), files };
}

const at = (folder: string | undefined) => (folder === undefined ? {} : { folder });

/** Downloads from a hub that asks for a token, and gives the folder in which the model then is. */
async function download(
  variables: (places: { readonly root: string; readonly hub: string }) => Record<string, string>,
  folder?: string,
) {
  const hub = await serveHub(embeddedOnHub(), { token: TOKEN });
  const root = scratch("hub");
  try {
    const env = { HOME: root, HF_ENDPOINT: hub.url, ...variables({ root, hub: hub.url }) };
    const ended = await wisp(["download", ID], { ...at(folder), env });
    const paths = readdirSync(root, { recursive: true, encoding: "utf8" });
    const found = paths.find((path) => path.endsWith("models--org--embedded"));
    return { ...ended, root, where: found, env };
  } finally {
    await hub.close();
  }
}

/** A download whose files come to this place of an empty home. */
const downloadsTo =
  (where: string, variables: (root: string) => Record<string, string>): VariableCheck =>
  async (folder) => {
    const all = ({ root }: { root: string }) => ({ HF_TOKEN: TOKEN, ...variables(root) });
    const ended = await download(all, folder);
    expect([ended.code, ended.where], ended.stderr).toEqual([0, where]);
  };

/** A start that says nothing of the variable's effect but this. */
const warns =
  (name: string, why: RegExp): VariableCheck =>
  async (folder) => {
    // The warnings come before the model is looked for.
    const args = ["launch_server", "--port", "0", "--model", "/no/such/folder"];
    const { stdout, stderr } = await wisp(args, { ...at(folder), env: { [name]: "1" } });
    expect(stdout + stderr).toMatch(
      new RegExp(`^Warning: the variable ${name} has no effect`, "m"),
    );
    expect(stdout + stderr).toMatch(why);
  };

/** A value that makes no sense ends the start, as a wrong option does. */
const refuses =
  (name: string, value: string): VariableCheck =>
  async (folder) => {
    const ended = await wisp(["generate", "Hello"], { ...at(folder), env: { [name]: value } });
    expect([ended.code, ended.stdout]).toEqual([2, ""]);
    expect(ended.stderr).toContain(name);
    expect(ended.stderr).toContain(value);
  };

/** By the variable's name, or the beginning of many. */
export const VARIABLES: Readonly<Record<string, VariableCheck>> = {
  WISP_ADAPTER: refuses("WISP_ADAPTER", "voodoo"),
  HF_ENDPOINT: downloadsTo(".cache/huggingface/hub/models--org--embedded", () => ({})),
  HF_HOME: downloadsTo("hf/hub/models--org--embedded", (root) => ({ HF_HOME: join(root, "hf") })),
  HF_HUB_CACHE: downloadsTo("mine/models--org--embedded", (root) => ({
    HF_HUB_CACHE: join(root, "mine"),
  })),
  XDG_CACHE_HOME: downloadsTo("xdg/huggingface/hub/models--org--embedded", (root) => ({
    XDG_CACHE_HOME: join(root, "xdg"),
  })),
  HF_TOKEN: async (folder) => {
    const without = await download(() => ({}), folder);
    expect([without.code, without.where]).toEqual([1, undefined]);
    expect(without.stderr).toContain("HF_TOKEN");
  },
  HUGGING_FACE_HUB_TOKEN: async (folder) => {
    const ended = await download(() => ({ HUGGING_FACE_HUB_TOKEN: TOKEN }), folder);
    expect(ended.code, ended.stderr).toBe(0);
  },
  HF_HUB_OFFLINE: async (folder) => {
    const hub = await serveHub(embeddedOnHub());
    const env = { HF_HUB_OFFLINE: "1", HF_ENDPOINT: hub.url };
    const { code, stderr } = await wisp(["serve", ID], { ...at(folder), env });
    await hub.close();
    expect([code, stderr]).toEqual([1, expect.stringContaining("wisp download org/embedded")]);
    expect(hub.hits).toEqual([]);
  },
  SVC_CHUNKED_PREFIX_CACHE_THRESHOLD: refuses("SVC_CHUNKED_PREFIX_CACHE_THRESHOLD", "many"),
  SVC_ENABLE_JIT_DEEPGEMM: refuses("SVC_ENABLE_JIT_DEEPGEMM", "perhaps"),
  SVC_MOONCAKE_TRANS_THREAD: async (folder) => {
    const env = { SVC_MOONCAKE_TRANS_THREAD: "none" };
    const args = ["launch_server", "--port", "0", "--disaggregation-mode", "decode"];
    const ended = await wisp(args, { ...at(folder), env });
    expect([ended.code, ended.stderr]).toEqual([
      2,
      expect.stringContaining("Cannot use SVC_MOONCAKE_TRANS_THREAD none"),
    ]);
  },
  SVC_SET_CPU_AFFINITY: warns("SVC_SET_CPU_AFFINITY", /ranks that are processes/),
  NCCL_IB_HCA: warns("NCCL_IB_HCA", /ranks that are processes/),
  "SVC_*": warns("SVC_HACK_DEEPEP_NUM_SMS", /exchanged by the processor/),
  "NCCL_IB_*": warns("NCCL_IB_TC", /through UCX/),
  "NVSHMEM_*": warns("NVSHMEM_IB_ENABLE_IBGDA", /through MPI/),
  MESA_SHADER_CACHE_DIR: async (folder) => {
    // Without the variable, the program gives the driver a folder of its own.
    const home = scratch("home");
    const chosen = scratch("shaders");
    const used = async (env: Readonly<Record<string, string | undefined>>) =>
      (await program(FIRST_SHADER, { ...at(folder), env })).stdout.trim();
    const own = join(home, ".cache", "wisp", "mesa");
    expect(await used({ HOME: home, MESA_SHADER_CACHE_DIR: undefined })).toBe(own);
    expect(readdirSync(own)).not.toEqual([]);
    expect(await used({ HOME: home, MESA_SHADER_CACHE_DIR: chosen })).toBe(chosen);
    expect(readdirSync(chosen)).not.toEqual([]);
  },
  OPENAI_API_KEY: async (folder) => {
    const seen: (string | undefined)[] = [];
    const server = createServer((request, response) => {
      seen.push(request.headers.authorization);
      response.writeHead(401).end();
    }).listen(0, "127.0.0.1");
    await once(server, "listening");
    const { port } = server.address() as AddressInfo;
    const args = ["bench_serving", "--base-url", `http://127.0.0.1:${port}`, "--num-prompts", "1"];
    const { code } = await wisp(args, { ...at(folder), env: { OPENAI_API_KEY: "sk-1" } });
    server.close();
    expect(code).toBe(1);
    expect(seen[0]).toBe("Bearer sk-1");
  },
  LP_NUM_THREADS: async (folder) => {
    // Of a small model the driver's own thread runs all work, unless the variable says otherwise.
    const threads = async (env: Readonly<Record<string, string>>) => {
      const server = await serveWisp([], { ...at(folder), env });
      const path = `/proc/${server.process.pid}/task`;
      const names = readdirSync(path).map((id) => readFileSync(join(path, id, "comm"), "utf8"));
      await server.stop();
      return names.filter((name) => name.startsWith("llvmpipe-")).length;
    };
    expect(await threads({})).toBe(0);
    expect(await threads({ LP_NUM_THREADS: "3" })).toBe(3);
  },
};

/** Variables whose effect can be seen with lavapipe on Linux alone. */
export const OF_LAVAPIPE: ReadonlySet<string> = new Set([
  "MESA_SHADER_CACHE_DIR",
  "LP_NUM_THREADS",
]);

/** An installation as another is, but its files read an empty environment. */
export function withoutEnvironment(folder: string): string {
  const planted = scratch("planted");
  const [from, to] = [folder, planted].map((place) => join(place, "node_modules")) as [
    string,
    string,
  ];
  mkdirSync(to);
  for (const name of readdirSync(from)) {
    if (name !== "wisp-llm") symlinkSync(join(from, name), join(to, name));
  }
  cpSync(join(from, "wisp-llm", "dist"), join(to, "wisp-llm", "dist"), { recursive: true });
  copyFileSync(join(from, "wisp-llm", "package.json"), join(to, "wisp-llm", "package.json"));
  // The program that npm has linked is the other installation's.
  const dist = join(to, "wisp-llm", "dist");
  for (const name of readdirSync(dist, { recursive: true, encoding: "utf8" })) {
    if (!name.endsWith(".js")) continue;
    const file = join(dist, name);
    const text = readFileSync(file, "utf8");
    if (text.includes("process.env")) writeFileSync(file, text.replaceAll("process.env", "({})"));
  }
  return planted;
}
