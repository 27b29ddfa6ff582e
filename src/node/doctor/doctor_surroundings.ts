/**
 * What `wisp doctor` tells of everything around the adapter.
 *
 * @module
 */
import { createRequire } from "node:module";
import { freemem, release, totalmem, type } from "node:os";
import type { Environment } from "../hub/hub_settings.ts";
import { environmentWarnings } from "../options/environment.ts";
import { setVariables } from "../options/known_variables.ts";
import { packageVersionOf } from "../package_root.ts";
import { requireFreeAddress } from "../serve/http.ts";
import type { AdapterFindings } from "./doctor_adapter.ts";
import { adviceFor } from "./doctor_advice.ts";
import { type CacheFindings, examineCaches } from "./doctor_caches.ts";
import type { DoctorReport } from "./doctor_report.ts";

interface Surroundings {
  readonly host: string;
  readonly port: number;
  /** As the program was started with. */
  readonly env: Environment;
  /** Undefined where none works. */
  readonly adapter: AdapterFindings | undefined;
  /** This package's version. */
  readonly wisp: string;
}

const require = createRequire(import.meta.url);

export async function surroundings({
  host,
  port,
  env,
  adapter,
  wisp,
}: Surroundings): Promise<Omit<DoctorReport, "healthy" | "adapter">> {
  const warnings: string[] = [];
  let caches: readonly CacheFindings[] = [];
  try {
    for (const warning of environmentWarnings(env, "ours")) warnings.push(warning);
    caches = await examineCaches(env);
  } catch (error) {
    warnings.push((error as Error).message);
  }
  const webgpu = packageVersionOf(require.resolve("webgpu"));
  const system = `${type()} ${release()}, ${process.arch}`;
  const limit = process.constrainedMemory?.() ?? 0;
  const total = totalmem();
  return {
    versions: { wisp, node: process.versions.node, webgpu: `${webgpu} (Dawn)`, system },
    memory: { total, free: freemem(), limit: limit > 0 && limit < total ? limit : undefined },
    caches,
    address: { host, port, problem: await problemOf(host, port) },
    missing: adviceFor(adapter),
    variables: setVariables(env),
    warnings,
  };
}

async function problemOf(host: string, port: number): Promise<string | undefined> {
  try {
    await requireFreeAddress({ host, port });
    return undefined;
  } catch (error) {
    return (error as Error).message;
  }
}
