/**
 * What an adapter of the table of tunings makes of a check: the form that its rows take, and how its
 * attention is shared out.
 *
 * @module
 */
import { formOf, formsFor } from "../../src/gpu/row_forms.ts";
import {
  ADAPTER_TUNINGS,
  type AdapterIdentity,
  attentionTuning,
  type RowForm,
  type Tuning,
} from "../../src/gpu/tuning.ts";
import { tuningNumbers } from "../attention/check_tuning.ts";
import type { KernelCheck } from "../check.ts";
import type { DeviceTraits } from "./assembled_kernels.ts";

type Numbers = Readonly<Record<string, number>>;

/** A check's tuning, and the device that it is meant for. */
export interface ChosenTuning {
  readonly tuning: Numbers;
  readonly traits: DeviceTraits;
}

export const TUNING_NAMES: readonly string[] = ADAPTER_TUNINGS.map(({ name }) => name);

/** Of adapters whose subgroups are all of one size; kernels of all other adapters are bound without it. */
const SUBGROUP_SIZES: Readonly<Record<string, number>> = {
  llvmpipe: 8,
  SwiftShader: 4,
  NVIDIA: 32,
  Apple: 32,
};

/** What GPUs have the most often, where only a check's own tuning is named. */
const ANY_SUBGROUP_SIZE = 32;

/** Limits that wrappers look at, as GPUs have them. */
const LIMITS = {
  minUniformBufferOffsetAlignment: 256,
  maxComputeWorkgroupStorageSize: 32768,
  maxStorageBuffersPerShaderStage: 10,
};

/** @param subgroupSize Where all subgroups are of one size. */
function traitsOf(vendor: string, subgroupSize?: number): DeviceTraits {
  return {
    adapterInfo: {
      ...identityOf(vendor),
      subgroupMinSize: subgroupSize ?? 4,
      subgroupMaxSize: subgroupSize ?? 128,
    } as GPUAdapterInfo,
    features: new Set(["subgroups", "shader-f16"]) as ReadonlySet<string> as GPUSupportedFeatures,
    limits: LIMITS as GPUSupportedLimits,
  };
}

const identityOf = (vendor: string): AdapterIdentity => ({
  vendor,
  architecture: "",
  device: "",
  description: "",
});

/**
 * @param wanted A name of the table, in any case, or the index of one of the check's tunings. Default:
 * its first one.
 * @returns Undefined where there is no such tuning.
 */
export function chooseTuning(
  check: Pick<KernelCheck<object>, "tunings">,
  shape: object,
  wanted = "0",
): ChosenTuning | undefined {
  const own = /^\d+$/.test(wanted) ? check.tunings[Number(wanted)] : undefined;
  if (own !== undefined) return { tuning: own, traits: traitsOf("", ANY_SUBGROUP_SIZE) };
  const row = ADAPTER_TUNINGS.find(({ name }) => name.toLowerCase() === wanted.toLowerCase());
  if (row === undefined) return undefined;
  const [vendor] = row.words as readonly [string];
  const subgroupSize = SUBGROUP_SIZES[row.name];
  const traits = traitsOf(vendor, subgroupSize);
  const { tunings } = check;
  if (tunings.some((one) => "tokens" in one)) {
    const subgroups = subgroupSize === undefined ? 0 : 1;
    return { traits, tuning: { ...formTuning(tunings, shape, row.tuning), subgroups } };
  }
  if (tunings.some((one) => "lanes" in one)) {
    return { traits, tuning: tuningNumbers(attentionTuning(identityOf(vendor))) };
  }
  return { traits, tuning: tunings[0]! };
}

/** The form that so many rows take, of those that the check knows. */
function formTuning(tunings: readonly Numbers[], shape: object, tuning: Tuning): Numbers {
  const { rows = 1, dtype = "" } = shape as { readonly rows?: number; readonly dtype?: string };
  const forms = formsFor(tuning, dtype);
  const numbers = ({ tokens, split, workgroup, staged }: RowForm) => ({
    tokens,
    split,
    workgroup,
    staged: staged ? 1 : 0,
  });
  const has = (one: Numbers, form: RowForm) =>
    Object.entries(numbers(form)).every(([name, value]) => one[name] === value);
  const known = forms.filter((form) => tunings.some((one) => has(one, form)));
  const allowed = known.length > 0 ? known : forms.filter(({ staged }) => staged !== true);
  const form = formOf(allowed, rows);
  return { ...(tunings.find((one) => has(one, form)) ?? tunings[0]), ...numbers(form) };
}
