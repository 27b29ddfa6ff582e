/**
 * What the visitor has set for all chats. An absent number is the model's own.
 *
 * @module
 */
import type { ModelDescription, SamplingParams } from "wisp-llm";
import { load, save } from "../app/saved.ts";

export interface SamplingSettings {
  temperature?: number;
  topP?: number;
  topK?: number;
  minP?: number;
  repetitionPenalty?: number;
  maxTokens?: number;
  seed?: number;
}

export type Thinking = "auto" | "on" | "off";

export interface Settings {
  sampling: SamplingSettings;
  thinking: Thinking;
  usesTools: boolean;
  answersJson: boolean;
  /** JSON text of the schema that answers fit when `answersJson`. */
  schema: string;
}

/** What a field takes; the engine refuses the rest. */
export interface SamplingField {
  readonly name: keyof SamplingSettings;
  readonly label: string;
  readonly hint: string;
  readonly min: number;
  readonly max: number;
  readonly step: number;
}

export const SAMPLING_FIELDS: readonly SamplingField[] = [
  {
    ...{ name: "temperature", label: "Temperature", min: 0, max: 10, step: 0.05 },
    hint: "0 always takes the likeliest token",
  },
  {
    ...{ name: "topP", label: "Top-p", min: 0.01, max: 1, step: 0.01 },
    hint: "likeliest tokens up to this sum of probabilities",
  },
  {
    ...{ name: "topK", label: "Top-k", min: 1, max: 10_000, step: 1 },
    hint: "so many of the likeliest tokens",
  },
  {
    ...{ name: "minP", label: "Min-p", min: 0, max: 1, step: 0.01 },
    hint: "least share of the likeliest token's probability",
  },
  {
    ...{ name: "repetitionPenalty", label: "Repetition penalty", min: 0, max: 2, step: 0.05 },
    hint: "above 1 avoids what was said",
  },
  {
    ...{ name: "maxTokens", label: "Max tokens", min: 1, max: 1_000_000, step: 1 },
    hint: "of one answer",
  },
  {
    ...{ name: "seed", label: "Seed", min: 0, max: 4_294_967_295, step: 1 },
    hint: "the same one gives the same answer",
  },
];

const EXAMPLE_SCHEMA = `{
  "type": "object",
  "properties": {
    "name": { "type": "string" },
    "age": { "type": "integer" },
    "city": { "type": "string" }
  },
  "required": ["name", "age", "city"],
  "additionalProperties": false
}`;

const DEFAULTS: Settings = {
  sampling: {},
  thinking: "auto",
  usesTools: false,
  answersJson: false,
  schema: EXAMPLE_SCHEMA,
};

export function loadSettings(): Settings {
  const kept = load("settings");
  const settings = typeof kept === "object" && kept !== null ? kept : {};
  return structuredClone({ ...DEFAULTS, ...settings });
}

export function saveSettings(settings: Settings): void {
  save("settings", settings);
}

/** What a field has when it is left empty, for its placeholder. */
export function defaultOf(name: keyof SamplingSettings, defaults: Defaults): string {
  const values: Readonly<Record<keyof SamplingSettings, number | string>> = {
    temperature: defaults.temperature ?? 1,
    topP: defaults.topP ?? 1,
    topK: defaults.topK === undefined || defaults.topK < 1 ? "all" : defaults.topK,
    minP: 0,
    repetitionPenalty: 1,
    maxTokens: defaults.maxNewTokens ?? "no limit",
    seed: "random",
  };
  return String(values[name]);
}

type Defaults = ModelDescription["defaults"];

/** The visitor's choices over the model's own. */
export function samplingParams(
  { temperature, topP, topK, minP, repetitionPenalty, maxTokens, seed }: SamplingSettings,
  defaults: Defaults,
): SamplingParams {
  return {
    temperature: temperature ?? defaults.temperature ?? 1,
    topP: topP ?? defaults.topP ?? 1,
    topK: topK ?? defaults.topK ?? -1,
    maxNewTokens: maxTokens ?? defaults.maxNewTokens ?? null,
    ...(minP !== undefined && { minP }),
    ...(repetitionPenalty !== undefined && { repetitionPenalty }),
    ...(seed !== undefined && { seed }),
  };
}
