/**
 * In which form a model's weights go to the device: as published where they fit, else quantized
 * while they are uploaded, to no fewer bits than it takes.
 *
 * @module
 */
import type { CheckpointReport } from "wisp-llm";
import { formatBytes } from "../app/format.ts";

/** What the visitor may ask for; "auto" is for the page to choose. */
export const FORMS = ["published", "int8", "int4"] as const;
export type Form = (typeof FORMS)[number];
export type FormWish = Form | "auto";

export interface Sizes {
  /** Bytes on the device; a form that is absent cannot be had. */
  readonly weights: { readonly [form in Form]?: number };
  readonly cacheBytesPerToken: number;
}

export interface Room {
  /** Bytes that the device is taken to have. */
  readonly deviceMemory: number;
  /** Tokens that the cache has to hold. */
  readonly contextLength: number;
  readonly wish: FormWish;
}

export interface Fit {
  readonly form: Form;
  readonly isFitting: boolean;
  /** What it takes, and why this form; for the visitor. */
  readonly reason: string;
}

/** Share of the memory that the engine gives to weights and cache by default. */
const SHARE = 0.88;

/** @throws {Error} when the model cannot be had in the form that is wished for. */
export function chooseFit({ weights, cacheBytesPerToken }: Sizes, room: Room): Fit {
  const { deviceMemory, contextLength, wish } = room;
  const budget = deviceMemory * SHARE;
  const cache = contextLength * cacheBytesPerToken;
  const known = FORMS.filter((form) => weights[form] !== undefined);
  const fits = (form: Form) => weights[form]! + cache <= budget;
  const size = (form: Form) => formatBytes(weights[form]!);
  const held = `${formatBytes(budget)} of ${formatBytes(deviceMemory)}`;
  if (wish !== "auto") {
    if (!known.includes(wish)) throw new Error(`Cannot quantize these weights to ${wish}`);
    const verdict = fits(wish) ? "as you chose" : `more than the ${held} here, as you chose`;
    return {
      form: wish,
      isFitting: fits(wish),
      reason: `${nameOfForm(wish)}: weights of ${size(wish)}, ${verdict}`,
    };
  }
  const form = known.find(fits);
  if (form === undefined) {
    const smallest = known.at(-1) ?? "published";
    const least = known.length === 0 ? "unknown" : formatBytes(weights[smallest]! + cache);
    return {
      form: smallest,
      isFitting: false,
      reason: `Too large: even ${nameOfForm(smallest)} it takes ${least}, and there are ${held}`,
    };
  }
  if (form === "published") {
    return { form, isFitting: true, reason: `As published: weights of ${size(form)} fit` };
  }
  const reason =
    `Quantized to ${form} while loading: ${size(form)} instead of ${size("published")}, ` +
    `which with the cache is more than ${held}`;
  return { form, isFitting: true, reason };
}

/** What the headers of a checkpoint say. */
export function sizesOf({ weights, cacheBytesPerToken }: CheckpointReport): Sizes {
  const sizes: { [form in Form]?: number } = {};
  for (const form of FORMS) {
    const bytes = weights.find((one) => one.form === form && one.kind !== "shape")?.gpuBytes;
    if (bytes !== undefined) sizes[form] = bytes;
  }
  return { weights: sizes, cacheBytesPerToken: cacheBytesPerToken.bf16 };
}

function nameOfForm(form: Form): string {
  return form === "published" ? "as published" : `in ${form}`;
}
