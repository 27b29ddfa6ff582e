/**
 * How checks of attention say what a launch is to be shared out by.
 *
 * @module
 */
import type { AttentionTuning } from "../../src/gpu/tuning.ts";
import { subgroupsOf } from "../linear/weights/layout.ts";
import type { ExchangeOptions } from "./exchange.ts";

type Numbers = Readonly<Record<string, number>>;

const BASE = { rowHeads: 8, groupHeads: 4, promptHeads: 2, lanes: 8 };

/** The options of a kernel; `subgroups` and `unrolls` are 0 or 1, what is not there is as on a CPU. */
export function exchangeOptions(device: GPUDevice, tuning: Numbers): ExchangeOptions {
  const { subgroups = 0, unrolls = 0, grouped: _, ...numbers } = tuning;
  const { subgroupSize } = subgroups === 1 ? subgroupsOf(device) : {};
  const flags = { subgroups: subgroups === 1, unrolls: unrolls === 1 };
  return { subgroupSize, tuning: { ...BASE, ...numbers, ...flags } };
}

/** A tuning as checks write it. */
export function tuningNumbers(tuning: AttentionTuning): Numbers {
  const { subgroups, unrolls = false, sharesReads: _, ...numbers } = tuning;
  return { ...numbers, subgroups: Number(subgroups), unrolls: Number(unrolls) };
}
