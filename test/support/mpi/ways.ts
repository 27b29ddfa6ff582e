/**
 * The ways that ranks of tests find each other on.
 *
 * @module
 */
import { mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { serialize } from "node:v8";
import { expect } from "vitest";
import type { EngineAnswers, EngineTask } from "./engine_answers.ts";
import { IN_NETWORKS, makeNetworks, NEAR_HOST } from "./networks.ts";
import { freePort, LauncherProcess, type Programs } from "./processes.ts";

export interface MpiWay {
  readonly name: string;
  /** Ranks that short runs have on it. */
  readonly shortSizes: readonly number[];
  readonly place: () => Promise<{
    readonly nodes: number;
    readonly address: { readonly host: string; readonly port: number } | undefined;
    readonly env: Readonly<Record<string, string>>;
    /** What the launcher of each node is run by. */
    readonly prefixes: readonly (readonly string[])[];
  }>;
  /** Why it cannot be gone; it then is left out. */
  readonly lack?: () => Promise<string | undefined>;
}

/** UCX would find the memory that two nodes on one machine share. */
const env = { UCX_TLS: "tcp,self" };
let networks: Promise<boolean> | undefined;

export const MPI_WAYS: readonly MpiWay[] = [
  {
    name: "shared memory",
    shortSizes: [2],
    place: async () => ({ nodes: 1, address: undefined, env: {}, prefixes: [] }),
  },
  {
    name: "UCX_TLS=tcp,self",
    shortSizes: [4],
    async place() {
      const address = { host: "127.0.0.1", port: await freePort() };
      return { nodes: 2, address, env, prefixes: [] };
    },
  },
  {
    name: "two networks",
    shortSizes: [],
    async place() {
      const address = { host: NEAR_HOST, port: await freePort() };
      return { nodes: 2, address, env, prefixes: IN_NETWORKS };
    },
    async lack() {
      networks ??= makeNetworks();
      return (await networks) ? undefined : "only root may make networks";
    },
  },
];

/** What an engine on the first of so many ranks has answered. */
export async function engineOverMpi(
  programs: Programs,
  { task, size, way }: { readonly task: EngineTask; readonly size: number; readonly way: MpiWay },
): Promise<EngineAnswers> {
  const folder = mkdtempSync(join(tmpdir(), "wisp-task-"));
  const argument = join(folder, "task");
  writeFileSync(argument, serialize(task));
  const { nodes, address, env, prefixes } = await way.place();
  const launchers = Array.from({ length: nodes }, (_, node) => {
    const place = { nodes, node, address, env, ranksPerNode: size / nodes };
    const options = { ...place, program: "engine", argument, prefix: prefixes[node] ?? [] };
    return new LauncherProcess(programs, options);
  });
  try {
    const ended = await Promise.all(launchers.map((launcher) => launcher.ended));
    await Promise.all(launchers.map((launcher) => launcher.closed()));
    const said = launchers.map(({ stdout, stderr }) => stdout.slice(-500) + stderr).join("");
    expect(ended, said).toEqual(Array(nodes).fill({ code: 0, signal: null }));
    return JSON.parse(/^outcome of 0: (.*)$/m.exec(launchers[0]!.stdout)![1]!);
  } finally {
    for (const launcher of launchers) launcher.kill();
    rmSync(folder, { recursive: true });
  }
}
