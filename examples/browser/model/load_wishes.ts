/**
 * How models are loaded, as the visitor wants it.
 *
 * @module
 */
import { load, save } from "../app/saved.ts";
import { guessDeviceMemory } from "./device_memory.ts";
import { FORMS, type FormWish } from "./fit.ts";

export interface LoadWishes {
  form: FormWish;
  /** Bytes. */
  deviceMemory: number;
  /** Tokens of one sequence, unless the model is defined for fewer. */
  contextLength: number;
  /** Address of the hub that models come from. */
  hub: string;
  drafts: DraftWish;
  /** Whether beginnings of conversations are kept, to be found again after a reload. */
  keepsPrefixes: boolean;
}

/** Where drafts of the next tokens come from: nowhere, the chat's text, a layer of the model. */
export const DRAFTS = ["none", "text", "layer"] as const;
export type DraftWish = (typeof DRAFTS)[number];

const PUBLIC_HUB = "https://huggingface.co";

export const CONTEXT_LENGTHS = [1024, 2048, 4096, 8192, 16_384, 32_768] as const;

export function keptWishes(): LoadWishes {
  const kept = (load("load") ?? {}) as Partial<Record<keyof LoadWishes, unknown>>;
  const number = (value: unknown, fallback: number) =>
    typeof value === "number" && value > 0 ? value : fallback;
  return {
    form: [...FORMS].find((form) => form === kept.form) ?? "auto",
    deviceMemory: number(kept.deviceMemory, guessDeviceMemory()),
    contextLength: number(kept.contextLength, 4096),
    drafts: DRAFTS.find((one) => one === kept.drafts) ?? "none",
    hub: typeof kept.hub === "string" && URL.canParse(kept.hub) ? kept.hub : PUBLIC_HUB,
    keepsPrefixes: kept.keepsPrefixes !== false,
  };
}

export function keepWishes(options: LoadWishes): void {
  save("load", options);
}
