/**
 * What each launch of a recorded step costs: the launches are caught on their way into the pass,
 * then those of a kind are timed together, without the others.
 *
 * @module
 */
import type { LaunchCost } from "../../src/gpu/launch_cost.ts";
import { LaunchTimer, type TimedLaunch } from "../../src/gpu/launch_timer.ts";
import type { Recorder } from "../../src/gpu/recorder.ts";
import { type LaunchTime, measureLaunch } from "./timing.ts";

export interface CaughtLaunch {
  /** Kernel and constants, as the pipeline is labelled. */
  readonly label: string;
  /** Workgroups, at most. */
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
  let grid: CaughtLaunch["grid"];
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
      dispatched((to) => to.dispatchWorkgroups(x, y, z));
    },
    dispatchWorkgroupsIndirect(buffer: GPUBuffer, offset: number) {
      dispatched((to) => to.dispatchWorkgroupsIndirect(buffer, offset));
    },
  };
  const dispatched = (dispatch: (to: GPUComputePassEncoder) => void) => {
    dispatch(own.call(recorder));
    const [p, g] = [pipeline, group];
    const encode = (to: GPUComputePassEncoder) => {
      to.setPipeline(p);
      to.setBindGroup(0, g);
      dispatch(to);
    };
    caught.push({ label: p.label, grid, encode });
  };
  const launch = recorder.launch.bind(recorder);
  recorder.launch = (recorded) => {
    grid = recorded.grid;
    launch(recorded);
  };
  Object.defineProperty(recorder, "pass", { get: () => pass, configurable: true });
  try {
    await work();
  } finally {
    Reflect.deleteProperty(recorder, "pass");
    Reflect.deleteProperty(recorder, "launch");
  }
  return caught;
}

/**
 * What each launch that `work` records has to do at least; undefined where its kernel does not say.
 */
export async function costsOfLaunches(
  recorder: Recorder,
  work: () => Promise<unknown>,
): Promise<(LaunchCost | undefined)[]> {
  const launches: TimedLaunch[] = [];
  const timer = new LaunchTimer(recorder.device, (submit) => launches.push(...submit.launches));
  recorder.timer = timer;
  try {
    await work();
    await timer.settled();
  } finally {
    recorder.timer = undefined;
    timer.destroy();
  }
  return launches.map(({ cost }) => cost);
}

/** Launches of one pipeline over one grid, each with its own tensors. */
export interface LaunchKind {
  readonly label: string;
  readonly grid: string;
  /** Their places among all launches. */
  readonly places: readonly number[];
  readonly launches: readonly CaughtLaunch[];
}

export function kindsOfLaunches(launches: readonly CaughtLaunch[]): LaunchKind[] {
  const places = new Map<string, number[]>();
  for (const [i, { label, grid }] of launches.entries()) {
    const key = `${label} ${grid}`;
    places.set(key, [...(places.get(key) ?? []), i]);
  }
  return Array.from(places.values(), (same) => {
    const { label, grid } = launches[same[0]!]!;
    const name = { label, grid: grid.join("x") };
    return { ...name, places: same, launches: same.map((i) => launches[i]!) };
  });
}

/** What all launches of a kind take, in turn: each brings its own weights, as it does in the step. */
export function timeKind({ launches }: LaunchKind): Promise<LaunchTime> {
  return measureLaunch((pass) => {
    for (const { encode } of launches) encode(pass);
  });
}
