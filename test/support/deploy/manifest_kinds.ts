/**
 * Which manifests have keys and values that their kinds do not: those of Kubernetes itself by its
 * published types, those of LeaderWorkerSet by their own definitions.
 *
 * @module
 */
import { spawnSync } from "node:child_process";
import { mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { Ajv, type ValidateFunction } from "ajv";
import addFormats from "ajv-formats";
import { type Manifest, podTemplates, readYaml } from "./manifests.ts";

const MODULES = fileURLToPath(new URL("../../../node_modules/", import.meta.url));
const DEFINITIONS = fileURLToPath(new URL("../../../../shared/data/kubernetes/", import.meta.url));

/** Kinds of Kubernetes itself, each with the module of its type. */
const CORE: Readonly<Record<string, string>> = {
  "v1 Service": "core/v1",
  "v1 ServiceAccount": "core/v1",
  "apps/v1 Deployment": "apps/v1",
  "apps/v1 StatefulSet": "apps/v1",
  "networking.k8s.io/v1 NetworkPolicy": "networking/v1",
  "rbac.authorization.k8s.io/v1 Role": "rbac/v1",
  "rbac.authorization.k8s.io/v1 RoleBinding": "rbac/v1",
};

const CUSTOM: Readonly<Record<string, string>> = {
  "leaderworkerset.x-k8s.io/v1 LeaderWorkerSet": "leaderworkerset.x-k8s.io_leaderworkersets.yaml",
  "disaggregatedset.x-k8s.io/v1 DisaggregatedSet":
    "disaggregatedset.x-k8s.io_disaggregatedsets.yaml",
};

const kindOf = ({ apiVersion, kind }: Manifest) => `${apiVersion} ${kind}`;

/**
 * What the compiler says of manifests written as values of their types, which refuses keys that a type
 * does not have.
 *
 * @param sets By their names.
 * @returns The problems of each set.
 */
export function coreProblems(
  sets: Readonly<Record<string, readonly Manifest[]>>,
): Readonly<Record<string, readonly string[]>> {
  const folder = mkdtempSync(join(tmpdir(), "manifests-"));
  try {
    for (const [name, manifests] of Object.entries(sets)) {
      writeFileSync(join(folder, `${name}.ts`), manifests.map(typed).join("\n"));
    }
    const options = { strict: true, noEmit: true, types: [], skipLibCheck: true };
    const paths = { "kubernetes-types/*": [join(MODULES, "kubernetes-types/*")] };
    const compilerOptions = { ...options, module: "esnext", moduleResolution: "bundler", paths };
    writeFileSync(join(folder, "tsconfig.json"), JSON.stringify({ compilerOptions }));
    const { stdout } = spawnSync(join(MODULES, ".bin/tsc"), ["-p", folder, "--pretty", "false"], {
      encoding: "utf8",
      cwd: folder,
    });
    const lines = stdout.split("\n").filter((line) => line.includes("error TS"));
    const found = Object.fromEntries(
      Object.keys(sets).map((name): [string, string[]] => [name, []]),
    );
    for (const line of lines) {
      const problems = found[/^([\w-]+)\.ts\(/.exec(line)?.[1] ?? ""];
      if (problems === undefined) throw new Error(`Cannot check manifests: ${line}`);
      problems.push(line);
    }
    return found;
  } finally {
    rmSync(folder, { recursive: true });
  }
}

/** A manifest, or the pods of one whose own kind is not Kubernetes', as a module that exports it. */
function typed(manifest: Manifest, i: number): string {
  const module = CORE[kindOf(manifest)];
  if (module !== undefined) {
    const type = `import("kubernetes-types/${module}").${manifest.kind}`;
    return `export const manifest${i}: ${type} = ${JSON.stringify(manifest)};`;
  }
  if (CUSTOM[kindOf(manifest)] === undefined) {
    return `export const manifest${i}: never = ${JSON.stringify(kindOf(manifest))};`;
  }
  return podTemplates([manifest])
    .map(({ template }, part) => {
      const type = 'import("kubernetes-types/core/v1").PodTemplateSpec';
      return `export const manifest${i}_${part}: ${type} = ${JSON.stringify(template)};`;
    })
    .join("\n");
}

const validators = new Map<string, ValidateFunction>();

/** What the definitions of LeaderWorkerSet and DisaggregatedSet say; nothing of other kinds. */
export function customProblems(manifests: readonly Manifest[]): readonly string[] {
  return manifests.flatMap((manifest) => {
    const file = CUSTOM[kindOf(manifest)];
    if (file === undefined) return [];
    const validate = validators.get(file) ?? compiled(file);
    validators.set(file, validate);
    if (validate(manifest)) return [];
    return (validate.errors ?? []).map(
      ({ instancePath, message, params }) => `${instancePath} ${message} ${JSON.stringify(params)}`,
    );
  });
}

interface Definition {
  readonly spec: {
    readonly versions: readonly {
      readonly name: string;
      readonly schema: { readonly openAPIV3Schema: object };
    }[];
  };
}

function compiled(file: string): ValidateFunction {
  const { spec } = readYaml<Definition>(join(DEFINITIONS, file));
  const { schema: given } = spec.versions.find(({ name }) => name === "v1")!;
  const schema = closed(given.openAPIV3Schema) as object;
  const metadata = { type: "object", additionalProperties: true };
  const { properties } = schema as { properties: object };
  const ajv = new Ajv({ strict: false, allErrors: true });
  (addFormats as unknown as (ajv: Ajv) => void)(ajv);
  return ajv.compile({ ...schema, properties: { ...properties, metadata } });
}

/** The schema of a cluster, which drops keys that it does not know, as one that refuses them. */
function closed(schema: unknown): unknown {
  if (Array.isArray(schema)) return schema.map(closed);
  if (typeof schema !== "object" || schema === null) return schema;
  const own = Object.fromEntries(
    Object.entries(schema).map(([key, value]) => [key, closed(value)]),
  );
  const isOpen = "additionalProperties" in own || "x-kubernetes-preserve-unknown-fields" in own;
  if (own["x-kubernetes-int-or-string"] === true) return { anyOf: [INTEGER, { type: "string" }] };
  const isObject = typeof own.properties === "object" && own.type === "object";
  return isObject && !isOpen ? { ...own, additionalProperties: false } : own;
}

const INTEGER = { type: "integer" };
