/**
 * The manifests of `deploy`, as kustomize renders them.
 *
 * @module
 */
import { spawnSync } from "node:child_process";
import { readFileSync } from "node:fs";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { parse, parseAllDocuments } from "yaml";

export const DEPLOY = fileURLToPath(new URL("../../../deploy/", import.meta.url));

export const OVERLAYS = ["one-gpu", "one-node", "two-sets", "two-nodes", "reference"] as const;

export interface Manifest {
  readonly apiVersion: string;
  readonly kind: string;
  readonly metadata: { readonly name: string; readonly namespace?: string };
  // biome-ignore lint/suspicious/noExplicitAny: what is checked is not known to have a shape
  readonly [key: string]: any;
}

export const hasKustomize = spawnSync("kubectl", ["version", "--client"]).status === 0;

/** @throws what kustomize says. */
export function rendered(overlay: string): readonly Manifest[] {
  const { status, stdout, stderr } = spawnSync("kubectl", ["kustomize", join(DEPLOY, overlay)], {
    encoding: "utf8",
  });
  if (status !== 0) throw new Error(`Cannot render ${overlay}: ${stderr}`);
  return parseAllDocuments(stdout).map((document) => document.toJS() as Manifest);
}

export function readYaml<T>(path: string): T {
  return parse(readFileSync(path, "utf8")) as T;
}

/** A pod as one of the manifests makes it. */
export interface PodTemplate {
  /** Of the manifest and the part of it. */
  readonly name: string;
  // biome-ignore lint/suspicious/noExplicitAny: what is checked is not known to have a shape
  readonly template: any;
  /** Labels that the owner looks for. */
  readonly selector: Readonly<Record<string, string>>;
}

export function podTemplates(manifests: readonly Manifest[]): readonly PodTemplate[] {
  return manifests.flatMap((manifest) => {
    const { kind, spec, metadata } = manifest;
    const { name } = metadata;
    switch (kind) {
      case "Deployment":
      case "StatefulSet":
        return [{ name, template: spec.template, selector: spec.selector.matchLabels ?? {} }];
      case "LeaderWorkerSet":
        return ofGroup(name, spec);
      case "DisaggregatedSet":
        return (spec.roles as readonly Manifest[]).flatMap((role) =>
          ofGroup(`${name}-${role.name}`, role.spec),
        );
      default:
        return [];
    }
  });
}

function ofGroup(name: string, spec: Manifest["spec"]): readonly PodTemplate[] {
  const { leaderTemplate, workerTemplate } = spec.leaderWorkerTemplate;
  const templates = { leader: leaderTemplate, worker: workerTemplate };
  return Object.entries(templates)
    .filter(([, template]) => template !== undefined)
    .map(([part, template]) => ({ name: `${name}-${part}`, template, selector: {} }));
}
