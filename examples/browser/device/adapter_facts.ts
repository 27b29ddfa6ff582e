/**
 * What WebGPU tells of an adapter, as data.
 *
 * @module
 */
import { cpuDriverOf } from "wisp-llm";
import type { AdapterFacts } from "./device_report.ts";

export function adapterFacts({ info, features, limits }: GPUAdapter): AdapterFacts {
  const { vendor, architecture, device, description } = info;
  const { subgroupMinSize: min, subgroupMaxSize: max } = info;
  return {
    ...{ vendor, architecture, device, description },
    isCpu: cpuDriverOf(info).isCpu,
    ...(min !== undefined && max !== undefined && { subgroupSizes: { min, max } }),
    features: [...features].sort(),
    limits: readLimits(limits),
  };
}

/** A name that people know the adapter by, as far as the browser tells. */
export function adapterName(facts: AdapterFacts): string {
  const { vendor, architecture, device, description } = facts;
  const known = description || device || [vendor, architecture].filter((word) => word).join(" ");
  return known || "a GPU that the browser does not name";
}

/** Limits are getters of the prototype. */
function readLimits(limits: GPUSupportedLimits): Readonly<Record<string, number>> {
  const names = Object.keys(Object.getPrototypeOf(limits)).sort();
  const all = limits as unknown as Readonly<Record<string, unknown>>;
  return Object.fromEntries(
    names
      .map((name) => [name, all[name]] as const)
      .filter((entry): entry is readonly [string, number] => typeof entry[1] === "number"),
  );
}
