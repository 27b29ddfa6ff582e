/** The manifests of `deploy`: their kinds, what they say of each other, and faults that are found. */
import { describe, expect, test } from "vitest";
import { coreProblems, customProblems } from "../support/deploy/manifest_kinds.ts";
import { linkProblems, optionsOf, serverOptions } from "../support/deploy/manifest_links.ts";
import {
  hasKustomize,
  type Manifest,
  OVERLAYS,
  podTemplates,
  rendered,
} from "../support/deploy/manifests.ts";
import {
  OF_CORE_KINDS,
  OF_CUSTOM_KINDS,
  OF_LINKS,
  type PlantedManifest,
  planted,
} from "../support/deploy/planted_manifests.ts";
import { hasSharedData } from "../text/shared_data.ts";

const kustomized = hasKustomize ? "" : " (skipped: kubectl is not installed)";
const defined = hasSharedData ? "" : " (skipped: ../shared/data is absent)";

describe.runIf(hasKustomize)(`deploy${kustomized}`, () => {
  const whole = hasKustomize
    ? Object.fromEntries(OVERLAYS.map((overlay) => [overlay, rendered(overlay)]))
    : {};

  const faulty = (fault: PlantedManifest) => planted(whole[fault.overlay]!, fault);

  test("has manifests of Kubernetes' kinds, and faults of those are found", () => {
    const faults = OF_CORE_KINDS.map((fault, i) => [`fault-${i}`, faulty(fault)] as const);
    const found = coreProblems({ ...whole, ...Object.fromEntries(faults) });
    for (const overlay of OVERLAYS) expect(found[overlay], overlay).toEqual([]);
    for (const [i, { of, at }] of OF_CORE_KINDS.entries()) {
      expect(found[`fault-${i}`]!.length, `${of} ${at}`).toBeGreaterThan(0);
    }
  });

  describe.runIf(hasSharedData)(`by the definitions of LeaderWorkerSet${defined}`, () => {
    test.each(OVERLAYS)("%s", (overlay) => {
      expect(customProblems(whole[overlay]!)).toEqual([]);
    });

    test.each(OF_CUSTOM_KINDS)("$of: $at that is $value is found", (fault) => {
      expect(customProblems(faulty(fault)).length).toBeGreaterThan(0);
    });
  });

  test.each(OVERLAYS)("%s says the same everywhere, and what the program takes", (overlay) => {
    expect(linkProblems(whole[overlay]!)).toEqual([]);
  });

  test.each(OF_LINKS)("$of: $at that is $value is found", (fault) => {
    expect(linkProblems(faulty(fault)).join("\n")).toContain(fault.problem!);
  });

  test("reference is two machines of eight devices for prompts and two for answers", () => {
    const find = (kind: string) => whole.reference!.find((one) => one.kind === kind)!;
    const { roles } = find("DisaggregatedSet").spec;
    expect(roles.map(({ name, spec }: Manifest) => [name, spec.replicas])).toEqual([
      ["prefill", 1],
      ["decode", 1],
    ]);
    for (const { spec } of roles as readonly Manifest[]) {
      const { size, leaderTemplate, workerTemplate } = spec.leaderWorkerTemplate;
      expect(size).toBe(2);
      for (const [i, template] of [leaderTemplate, workerTemplate].entries()) {
        const [container] = template.spec.containers;
        expect(container.resources.limits).toEqual({ "nvidia.com/gpu": "8" });
        const probe = { tcpSocket: { port: "http" }, periodSeconds: 30 };
        expect(container.readinessProbe).toEqual(probe);
        expect(container.ports[0]).toEqual({ name: "http", containerPort: 30_000 + i });
      }
    }
    expect(find("Service").spec.ports).toEqual([
      { name: "http", port: 8000, targetPort: "http", nodePort: 30_800 },
    ]);
  });

  test("reference has the settings of the reference", () => {
    const [prefill, prefillWorker, decode, decodeWorker] = podTemplates(whole.reference!)
      .map(({ template }) => optionsOf(template.spec.containers[0]))
      .filter(([command]) => command === "launch_server")
      .map(([, ...args]) => serverOptions(args));
    const alike = { pageSize: 64, contextLength: 32_768, tpSize: 16, epNumRedundantExperts: 32 };
    expect(prefill).toMatchObject({
      ...alike,
      ...{ chunkedPrefillSize: 524_288, maxPrefillTokens: 32_768, memFractionStatic: 0.7 },
      ...{ maxRunningRequests: 1024, disableRadixCache: true },
    });
    expect(decode).toMatchObject({
      ...alike,
      ...{ chunkedPrefillSize: 262_144, memFractionStatic: 0.849 },
      ...{ maxRunningRequests: 2048 },
    });
    for (const [leader, worker] of [
      [prefill, prefillWorker],
      [decode, decodeWorker],
    ]) {
      expect(leader).toMatchObject({ nnodes: 2, distInitAddr: "wisp-0.wisp.wisp:20102" });
      expect(worker).toEqual({ ...leader, port: 30_001 });
    }
  });

  test("two-nodes is one server over two machines", () => {
    const group = whole["two-nodes"]!.find(({ kind }) => kind === "LeaderWorkerSet")!;
    const { leaderTemplate, workerTemplate, size } = group.spec.leaderWorkerTemplate;
    expect(size).toBe(2);
    const [leader, worker] = [leaderTemplate, workerTemplate].map(({ spec }) => {
      const [, ...args] = optionsOf(spec.containers[0]);
      return serverOptions(args);
    });
    const meeting = { tpSize: 16, nnodes: 2, distInitAddr: "wisp-0.wisp.wisp:20102" };
    expect(leader).toMatchObject({ ...meeting, port: 30_000, distTimeout: 3600 });
    expect(worker).toMatchObject({ ...meeting, port: 30_001, distTimeout: 3600 });
  });
});
