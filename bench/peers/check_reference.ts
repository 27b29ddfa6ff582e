/**
 * How far the reference is from llama.cpp's committed answers, for cases both can answer:
 * `npm run bench:peers -- check_reference [NAME..]`.
 *
 * @module
 */
import { readFileSync } from "node:fs";
import { fileURLToPath } from "node:url";
import {
  ORACLE_CASES,
  type OracleAnswers,
  type OraclePrompt,
} from "../../test/support/synthetic/oracle_cases.ts";
import { syntheticSource } from "../../test/support/synthetic/source.ts";
import { CheckpointRows } from "./checkpoint_rows.ts";
import type { ModelConfig } from "./gguf/gguf_metadata.ts";
import { referenceLogProbabilities } from "./reference.ts";

/** @param names Of cases; the small ones when none is given. */
export async function main(names: readonly string[]): Promise<void> {
  for (const one of ORACLE_CASES) {
    const wanted = names.length === 0 ? !one.large : names.includes(one.name);
    const model = one.model();
    // Latent attention is not in the reference.
    if (!wanted || model.config.model_type === "deepseek_v2") continue;
    const file = new URL(`../../test/models/oracle/${one.name}.json`, import.meta.url);
    const answers = JSON.parse(readFileSync(fileURLToPath(file), "utf8")) as OracleAnswers;
    const weights = await CheckpointRows.open(syntheticSource(model, one.seed));
    let most = 0;
    for (const prompt of answers.prompts) {
      const config = model.config as unknown as ModelConfig;
      const rows = await referenceLogProbabilities(config, weights, prompt.tokens);
      most = Math.max(most, largestDifference(prompt, rows));
    }
    console.log(`${one.name}: largest difference to ${answers.engine}: ${most.toExponential(1)}`);
  }
}

function largestDifference(prompt: OraclePrompt, rows: readonly Float64Array[]): number {
  const { positions, top, topLogprobs } = prompt;
  const differences = positions.flatMap((position, i) =>
    top[i]!.map((token, t) => Math.abs(rows[position]![token]! - topLogprobs[i]![t]!)),
  );
  return Math.max(...differences);
}
