/**
 * What each launch of a recorded step costs: the launches are caught on their way into the pass,
 * then every one is timed on its own.
 *
 * @module
 */
import type { Recorder } from "../src/gpu/recorder.ts";
import { type LaunchTime, measureLaunch } from "./timing.ts";

export interface CaughtLaunch {
  /** Kernel and constants, as the pipeline is labelled. */
  readonly label: string;
  readonly grid: readonly [number, number, number];
  readonly encode: (pass: GPUComputePassEncoder) => void;
}

/** Launches that `work` records. They also run, as always. */
export async function catchLaunches(
  recorder: Recorder,
  work: () => Promise<unknown>,
): Promise<CaughtLaunch[]> {
  const caught: CaughtLaunch[] = [];
  const own = Object.getOwnPropertyDescriptor(Object.getPrototypeOf(recorder), "pass")!.get!;
  let pipeline: GPUComputePipeline;
  let group: GPUBindGroup;
  const pass = {
    setPipeline(value: GPUComputePipeline) {
      pipeline = value;
      own.call(recorder).setPipeline(value);
    },
    setBindGroup(index: number, value: GPUBindGroup) {
      group = value;
      own.call(recorder).setBindGroup(index, value);
    },
    dispatchWorkgroups(x: number, y: number, z: number) {
      own.call(recorder).dispatchWorkgroups(x, y, z);
      const [p, g] = [pipeline, group];
      const encode = (to: GPUComputePassEncoder) => {
        to.setPipeline(p);
        to.setBindGroup(0, g);
        to.dispatchWorkgroups(x, y, z);
      };
      caught.push({ label: p.label, grid: [x, y, z], encode });
    },
  };
  Object.defineProperty(recorder, "pass", { get: () => pass, configurable: true });
  try {
    await work();
  } finally {
    Reflect.deleteProperty(recorder, "pass");
  }
  return caught;
}

/** Times are of all launches of the kind. */
export interface LaunchCost extends LaunchTime {
  readonly label: string;
  readonly grid: string;
  readonly count: number;
}

/** Cost by pipeline and grid, most expensive first. Equal launches are timed once. */
export async function costOfLaunches(launches: readonly CaughtLaunch[]): Promise<LaunchCost[]> {
  const kinds = new Map<string, CaughtLaunch[]>();
  for (const launch of launches) {
    const key = `${launch.label} ${launch.grid}`;
    kinds.set(key, [...(kinds.get(key) ?? []), launch]);
  }
  const costs: LaunchCost[] = [];
  for (const same of kinds.values()) {
    const { label, grid, encode } = same[0]!;
    const { seconds, cpuSeconds } = await measureLaunch(encode);
    const count = same.length;
    const all = { seconds: seconds * count, cpuSeconds: cpuSeconds * count };
    costs.push({ label, grid: grid.join("x"), count, ...all });
  }
  return costs.sort((a, b) => b.seconds - a.seconds);
}
