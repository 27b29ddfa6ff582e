/**
 * Schemas with values that fit them, of the kinds that first walks are measured over.
 *
 * @module
 */
import { readdirSync } from "node:fs";
import { performance } from "node:perf_hooks";
import { cpuUsage } from "node:process";
import { writtenCollections } from "../../test/grammar/collections/strict_count.ts";
import { hasSharedData, sharedJson } from "../../test/text/shared_data.ts";

const SUITE = "json-schema-test-suite/draft2020-12";

export interface WalkedSchema {
  readonly name: string;
  readonly schema: unknown;
  readonly valid: readonly unknown[];
}

interface SuiteGroup {
  readonly description: string;
  readonly schema: unknown;
  readonly tests: readonly { readonly data: unknown; readonly valid: boolean }[];
}

/** The collections of this project, and the suite of JSON Schema where it is there. */
export function walkedSchemas(): Readonly<Record<string, readonly WalkedSchema[]>> {
  const collections = [...writtenCollections().values()].flat();
  return { collections, ...(hasSharedData && { suite: suite() }) };
}

function suite(): readonly WalkedSchema[] {
  const folder = new URL(`../../../shared/data/${SUITE}`, import.meta.url);
  const files = (readdirSync(folder, { recursive: true }) as string[]).filter((name) =>
    name.endsWith(".json"),
  );
  return files.flatMap((file) =>
    sharedJson<readonly SuiteGroup[]>(`${SUITE}/${file}`).map(({ description, schema, tests }) => ({
      name: `${file}: ${description}`,
      schema,
      valid: tests.filter(({ valid }) => valid).map(({ data }) => data),
    })),
  );
}

/**
 * Milliseconds that some work takes, of the processor where that is less: others of the machine's
 * programs do not count, and neither does what another thread of this one tidies up.
 */
export function processorTimed<T>(work: () => T): { readonly ms: number; readonly result: T } {
  const [usage, started] = [cpuUsage(), performance.now()];
  const result = work();
  const [wall, { user, system }] = [performance.now() - started, cpuUsage(usage)];
  return { ms: Math.min(wall, (user + system) / 1000), result };
}
