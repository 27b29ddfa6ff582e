/**
 * The licences of what the package's files have inside, in one file beside them.
 *
 * @module
 */
import { existsSync, readdirSync, readFileSync, writeFileSync } from "node:fs";
import { dirname, join } from "node:path";
import type { Plugin } from "vite";

export interface Licenses {
  /** Notes the packages that a build takes modules from. */
  readonly plugin: Plugin;
  /** Writes the file, once all is built. */
  write(file: string): void;
}

export function collectLicenses(): Licenses {
  const folders = new Set<string>();
  return {
    plugin: {
      name: "licenses",
      generateBundle(_, bundle) {
        for (const chunk of Object.values(bundle)) {
          if (chunk.type !== "chunk") continue;
          for (const id of chunk.moduleIds) {
            if (id.includes("/node_modules/")) folders.add(packageFolder(id));
          }
        }
      },
    },
    write: (file) => writeFileSync(file, [...folders].sort().map(notice).join("\n\n")),
  };
}

/** Nearest folder above a module that is a package; inside there may be further package.json files. */
function packageFolder(id: string): string {
  for (let folder = dirname(id); ; folder = dirname(folder)) {
    const manifest = join(folder, "package.json");
    if (existsSync(manifest) && "version" in JSON.parse(readFileSync(manifest, "utf8")))
      return folder;
    if (folder.endsWith("node_modules")) throw new Error(`Cannot find the package of ${id}`);
  }
}

function notice(folder: string): string {
  const { name, version, license } = JSON.parse(readFileSync(join(folder, "package.json"), "utf8"));
  const file = readdirSync(folder).find((entry) => /^licen[cs]e(\.|$)/i.test(entry));
  const text = file === undefined ? "" : `\n\n${readFileSync(join(folder, file), "utf8").trim()}\n`;
  return `${name} ${version}: ${license}${text}`;
}
