/**
 * GPUs whose compilers run without them.
 *
 * @module
 */

/** An Intel GPU as the kernel's driver tells of it. */
interface IntelShape {
  /** PCI device id, hexadecimal. */
  readonly id: string;
  /** Whether it has memory of its own. */
  readonly hasOwnMemory: boolean;
  /** Dual subslices (Xe cores) of 16 execution units. */
  readonly subslices: number;
  /** Timestamps a second. */
  readonly timestamps: number;
}

export interface AbsentGpu {
  readonly name: string;
  /** What people buy it as. */
  readonly family: string;
  /** Absent: AMD, where Mesa's driver knows the family by name. */
  readonly intel?: IntelShape;
}

const OLD_TIMESTAMPS = 19_200_000;

export const ABSENT_GPUS = [
  { name: "navi31", family: "AMD RDNA3 (Radeon RX 7900)" },
  { name: "navi21", family: "AMD RDNA2 (Radeon RX 6800)" },
  { name: "vega20", family: "AMD Vega (Radeon VII)" },
  { name: "mi100", family: "AMD CDNA (Instinct MI100)" },
  {
    name: "tgl",
    family: "Intel Xe-LP (Core of the 11th to 14th generation)",
    intel: { id: "9a49", hasOwnMemory: false, subslices: 6, timestamps: OLD_TIMESTAMPS },
  },
  {
    name: "mtl",
    family: "Intel Xe-LPG (Core Ultra)",
    intel: { id: "7d55", hasOwnMemory: false, subslices: 8, timestamps: OLD_TIMESTAMPS },
  },
  {
    name: "dg2",
    family: "Intel Arc (A770)",
    intel: { id: "56a0", hasOwnMemory: true, subslices: 32, timestamps: OLD_TIMESTAMPS },
  },
] as const satisfies readonly AbsentGpu[];

export type AbsentGpuName = (typeof ABSENT_GPUS)[number]["name"];

/** The GPU of this name; undefined where none is. */
export function absentGpu(name: string): AbsentGpu | undefined {
  return ABSENT_GPUS.find((gpu) => gpu.name === name);
}
