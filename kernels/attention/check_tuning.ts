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

/** The options of a kernel; `subgroups` is 0 or 1, what is not there is as on a CPU. */
export function exchangeOptions(device: GPUDevice, tuning: Numbers): ExchangeOptions {
  const { subgroups = 0, grouped: _, ...numbers } = tuning;
  const { subgroupSize } = subgroups === 1 ? subgroupsOf(device) : {};
  return { subgroupSize, tuning: { ...BASE, ...numbers, subgroups: subgroups === 1 } };
}

/** A tuning as checks write it. */
export function tuningNumbers({ subgroups, sharesReads: _, ...numbers }: AttentionTuning): Numbers {
  return { ...numbers, subgroups: subgroups ? 1 : 0 };
}
