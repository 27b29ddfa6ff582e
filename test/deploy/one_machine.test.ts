/** The container and compose files of `deploy`. */
import { spawnSync } from "node:child_process";
import { readFileSync } from "node:fs";
import { join } from "node:path";
import { describe, expect, test } from "vitest";
import { z } from "zod";
import { knownHosts } from "../../src/node/disaggregation/disaggregation_options.ts";
import { routerOptions, serverOptions } from "../support/deploy/manifest_links.ts";
import { DEPLOY, readYaml } from "../support/deploy/manifests.ts";

const SERVICE = z.strictObject({
  image: z.string(),
  build: z
    .strictObject({ context: z.string(), dockerfile: z.string(), target: z.string() })
    .optional(),
  command: z.array(z.string()).nonempty(),
  volumes: z.array(z.string().regex(/^\.\/[\w./-]+:\/[\w./-]+:ro$/)),
  ports: z.array(z.string().regex(/^127\.0\.0\.1:\d+:\d+$/)).optional(),
  stop_grace_period: z.string().regex(/^\d+s$/),
});
const COMPOSE = z.strictObject({ services: z.record(z.string(), SERVICE) });

const containerfile = readFileSync(join(DEPLOY, "Containerfile"), "utf8");
const manifest = JSON.parse(readFileSync(join(DEPLOY, "../package.json"), "utf8")) as {
  readonly name: string;
  readonly version: string;
  readonly bin: object;
};

const INSTRUCTIONS = [
  ...["FROM", "WORKDIR", "COPY", "RUN", "ENV", "USER", "EXPOSE", "ENTRYPOINT", "CMD"],
];
/** Where the lists were never fetched there are only packages that are installed. */
const hasPackageLists = /Candidate: \d/.test(
  spawnSync("apt-cache", ["policy", "libmpich-dev"], { encoding: "utf8" }).stdout ?? "",
);

describe("deploy/compose.yaml", () => {
  const compose = readYaml<z.infer<typeof COMPOSE>>(join(DEPLOY, "compose.yaml"));
  const argsOf = (name: string) => compose.services[name]!.command.slice(1);

  test("has keys of compose files, and a file of options for each service", () => {
    COMPOSE.parse(compose);
    expect(Object.keys(compose.services)).toEqual(["prefill", "decode", "router"]);
    for (const { command, volumes, stop_grace_period } of Object.values(compose.services)) {
      const config = command.find((arg) => arg.startsWith("--config="))!.slice("--config=".length);
      expect(volumes[0]).toContain(`:${config}:`);
      expect(Number.parseInt(stop_grace_period, 10)).toBeGreaterThan(300);
    }
    const { build } = compose.services.prefill!;
    expect(join(DEPLOY, build!.context, build!.dockerfile)).toBe(join(DEPLOY, "Containerfile"));
    expect(containerfile).toMatch(new RegExp(`^FROM \\S+ AS ${build!.target}$`, "m"));
  });

  test("has servers and a router that find each other", () => {
    const [prefill, decode] = ["prefill", "decode"].map((name) => serverOptions(argsOf(name)));
    const router = routerOptions(argsOf("router"));
    expect([prefill!.disaggregationMode, decode!.disaggregationMode]).toEqual([
      "prefill",
      "decode",
    ]);
    expect(router.prefill).toEqual([
      `http://prefill:${prefill!.port}`,
      String(prefill!.disaggregationBootstrapPort),
    ]);
    expect(router.decode).toEqual([`http://decode:${decode!.port}`]);
    expect(knownHosts(decode!)).toEqual([{ host: "prefill" }]);
    expect(compose.services.router!.ports).toEqual([`127.0.0.1:8000:${router.port}`]);
  });
});

describe("deploy/Containerfile", () => {
  test("has a Node that runs the package, installs it, and starts its program", () => {
    const images = [...containerfile.matchAll(/^FROM node:(\d+)-\S+ AS \w+$/gm)];
    expect(images.map(([, version]) => Number(version) >= 22)).toEqual([true, true]);
    expect(containerfile).toContain(`/package/${manifest.name}-*.tgz`);
    const [, program] = /^ENTRYPOINT \["(\w+)"\]$/m.exec(containerfile)!;
    expect(Object.keys(manifest.bin)).toContain(program);
    const [, command] = /^CMD (\[.*\])$/m.exec(containerfile)!;
    const [name, ...args] = JSON.parse(command!) as string[];
    expect(name).toBe("launch_server");
    expect(serverOptions(args).port).toBe(30_000);
    expect(containerfile).toMatch(/^USER node$/m);
  });

  test("has instructions that there are, each of a stage that begins with an image or an earlier stage", () => {
    // A line may go on behind a backslash.
    const lines = containerfile.replace(/\\\n\s*/g, "").split("\n");
    const instructions = lines.filter((line) => line !== "" && !line.startsWith("#"));
    const stages: string[] = [];
    for (const line of instructions) {
      const [, name, rest] = /^([A-Z]+) (\S.*)$/.exec(line) ?? [];
      expect(INSTRUCTIONS, line).toContain(name);
      if (name !== "FROM") {
        expect(stages, line).not.toEqual([]);
        const [, from] = /^--from=(\S+)/.exec(rest!) ?? [];
        if (from !== undefined) expect(stages).toContain(from);
        continue;
      }
      const [, image, stage] = /^(\S+) AS (\w+)$/.exec(rest!)!;
      // An image is named with its version and the system that packages come from.
      if (!stages.includes(image!)) expect(image).toMatch(/^node:\d+-trixie-slim$/);
      stages.push(stage!);
    }
    // It runs as a user who cannot change the package.
    const users = instructions.filter((line) => line.startsWith("USER "));
    expect(users.at(-1)).toBe("USER node");
    const { port } = serverOptions([]);
    const { services } = readYaml<z.infer<typeof COMPOSE>>(join(DEPLOY, "compose.yaml"));
    const [, exposed] = /^EXPOSE (.*)$/m.exec(containerfile)!;
    const router = routerOptions(services.router!.command.slice(1));
    expect(exposed!.split(" ").map(Number)).toEqual([port, router.port]);
  });

  test.skipIf(!hasPackageLists)("installs packages that Debian has", () => {
    const named = [...containerfile.matchAll(/--no-install-recommends ([^\\\n]+)/g)];
    const packages = named.flatMap(([, names]) => names!.trim().split(" "));
    expect(packages).toContain("mesa-vulkan-drivers");
    const { stdout } = spawnSync("apt-cache", ["pkgnames"], { encoding: "utf8" });
    const known = new Set(stdout.split("\n"));
    expect(packages.filter((name) => !known.has(name))).toEqual([]);
  });

  test("leaves out of its context what is built or installed anew", () => {
    const ignored = readFileSync(join(DEPLOY, "Containerfile.dockerignore"), "utf8").split("\n");
    for (const name of ["**/node_modules", "dist", ".git"]) expect(ignored).toContain(name);
  });
});
