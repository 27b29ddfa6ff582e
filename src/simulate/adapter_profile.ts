/**
 * What an adapter does in a second, and what share of that each kind of kernel gets, by rows.
 *
 * @module
 */
import { ConfigReader } from "../checkpoint/config.ts";
import { DESCRIBED_LIMITS, type DeviceDescription } from "./described_device.ts";

/** By rows of a step, padding included: what launches get of the bound that holds for them. */
type SharesByRows = ReadonlyMap<number, number>;

/** The host's part of a step, in seconds. */
export interface HostTimes {
  /** Of each step, and of each of its launches. */
  readonly step: number;
  readonly launch: number;
  /** Of each exchange: from the submit before it until its bytes are on the host, and for each byte. */
  readonly readback: number;
  readonly readByte: number;
}

export interface AdapterProfile {
  readonly name: string;
  readonly adapter: DeviceDescription;
  /** Bytes read plus bytes written, and operations, a second. */
  readonly copy: number;
  readonly fma: number;
  /** Seconds that a launch takes on the device whatever it does. */
  readonly launch: number;
  readonly host: HostTimes;
  /**
   * By a kernel's name, as "linear/linear", or what names begin with, as "moe": of the longer of bytes /
   * copy rate and operations / FMA rate, the share that is reached; above 1 where caches help.
   */
  readonly shares: ReadonlyMap<string, SharesByRows>;
}

/**
 * An NVIDIA H200, measured: bench/results/2026-11-gpu.md. Its experts are those of a layer of
 * DeepSeek-V3 with all launches of it, its linears FP8 of 7168x2048 and one row of 7168x18432.
 */
export const H200: AdapterProfile = {
  name: "NVIDIA H200",
  adapter: {
    vendor: "nvidia",
    architecture: "hopper",
    device: "",
    description: "",
    limits: {
      maxStorageBufferBindingSize: 2 ** 32 - 4,
      maxStorageBuffersPerShaderStage: 16,
      maxComputeWorkgroupStorageSize: 48 * 2 ** 10,
    },
  },
  copy: 4.124e12,
  fma: 35.98e12,
  launch: 1.8e-6,
  // One row's argmax and the way back are in `readback`; PCIe of the fourth generation.
  host: { step: 0, launch: 8e-6, readback: 64.4e-6, readByte: 1 / 25e9 },
  shares: new Map([
    ["", shares([1, 0.45], [8, 0.26], [64, 0.41], [1024, 0.54])],
    [
      "linear",
      shares([1, 0.45], [4, 0.2], [8, 0.26], [16, 0.29], [64, 0.41], [256, 0.45], [1024, 0.54]),
    ],
    ["moe", shares([1, 0.185], [8, 0.59], [64, 0.32], [512, 0.25], [4096, 0.4])],
    ["attention", shares([1, 0.15], [8, 0.31], [32, 0.32], [1024, 0.31])],
  ]),
};

function shares(...points: readonly (readonly [rows: number, share: number])[]): SharesByRows {
  return new Map(points);
}

/** The share of a kernel in a step of so many rows: between measured rows along their logarithm. */
export function shareOf(profile: AdapterProfile, kernel: string, rows: number): number {
  const byRows = sharesFor(profile, kernel);
  if (byRows === undefined) return 1;
  const measured = [...byRows].sort(([a], [b]) => a - b);
  const above = measured.findIndex(([at]) => at >= rows);
  if (above <= 0) return measured.at(above)![1];
  const [low, lowShare] = measured[above - 1]!;
  const [high, highShare] = measured[above]!;
  return lowShare + ((highShare - lowShare) * Math.log(rows / low)) / Math.log(high / low);
}

/** Those of the longest name that the kernel's begins with. */
function sharesFor({ shares }: AdapterProfile, kernel: string): SharesByRows | undefined {
  for (let name = kernel; name !== ""; name = name.slice(0, Math.max(name.lastIndexOf("/"), 0))) {
    const found = shares.get(name);
    if (found !== undefined) return found;
  }
  return shares.get("");
}

/**
 * @param value Parsed JSON, as `profileJson` makes it.
 * @throws {CheckpointError | UnsupportedError} naming the field that is wrong, missing or unknown.
 */
export function readProfile(value: unknown, file: string): AdapterProfile {
  const reader = new ConfigReader(value, { file, isModel: false });
  const above0 = { min: Number.MIN_VALUE };
  const adapter = reader.section("adapter");
  const host = reader.section("host");
  const kernels = reader.section("kernels");
  const profile: AdapterProfile = {
    name: reader.string("name"),
    adapter: {
      vendor: adapter.string("vendor"),
      architecture: adapter.string("architecture"),
      device: adapter.string("device"),
      description: adapter.string("description"),
      limits: readLimits(adapter.section("limits")),
    },
    copy: reader.number("copy", above0),
    fma: reader.number("fma", above0),
    launch: reader.number("launch", { min: 0 }),
    host: {
      step: host.number("step", { min: 0 }),
      launch: host.number("launch", { min: 0 }),
      readback: host.number("readback", { min: 0 }),
      readByte: host.number("readByte", { min: 0 }),
    },
    shares: new Map(kernels.names().map((name) => [name, readShares(kernels.section(name))])),
  };
  reader.finish();
  return profile;
}

function readLimits(limits: ConfigReader): DeviceDescription["limits"] {
  const read = (name: (typeof DESCRIBED_LIMITS)[number]) => limits.integer(name, { min: 1 });
  return Object.fromEntries(
    DESCRIBED_LIMITS.map((name) => [name, read(name)]),
  ) as DeviceDescription["limits"];
}

function readShares(section: ConfigReader): SharesByRows {
  const rows = section.names().map((name) => {
    const count = Number(name);
    if (Number.isSafeInteger(count) && count > 0)
      return [count, section.number(name, { min: Number.MIN_VALUE })] as const;
    throw section.error(name, "it must be a number of rows");
  });
  if (rows.length === 0) throw section.error("", "it has no shares");
  return new Map(rows);
}

/** Plain data that `readProfile` takes. */
export function profileJson({ shares: all, ...profile }: AdapterProfile): object {
  const kernels = Object.fromEntries(
    [...all].map(([name, byRows]) => [name, Object.fromEntries(byRows)]),
  );
  return { ...profile, kernels };
}
