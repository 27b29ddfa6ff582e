/**
 * Asks llama.cpp, or the reference where llama.cpp cannot answer, about the models of
 * test/support/synthetic/oracle_cases.ts and writes the answers to test/models/oracle:
 * `npm run bench:peers -- oracle [NAME..]`.
 *
 * @module
 */
import { mkdir, mkdtemp, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import {
  FIXED_TOKENS,
  ORACLE_CASES,
  type OracleAnswers,
  type OracleCase,
  type OraclePrompt,
  promptTokens,
  recordedPositions,
  TOP_TOKENS,
} from "../../test/support/synthetic/oracle_cases.ts";
import { type SyntheticModel, syntheticSource } from "../../test/support/synthetic/source.ts";
import { CheckpointRows } from "./checkpoint_rows.ts";
import type { ModelConfig } from "./gguf/gguf_metadata.ts";
import { ggufModel } from "./gguf/gguf_model.ts";
import { writeGguf } from "./gguf/gguf_writer.ts";
import { ENGINE, logProbabilities } from "./llama_cpp/llama_cpp.ts";
import { REFERENCE, referenceLogProbabilities } from "./reference.ts";

const FOLDER = fileURLToPath(new URL("../../test/models/oracle", import.meta.url));
const DIGITS = 6;

/** @param names Of cases; all when none is given. */
export async function main(names: readonly string[]): Promise<void> {
  await mkdir(FOLDER, { recursive: true });
  for (const one of ORACLE_CASES) {
    if (names.length > 0 && !names.includes(one.name)) continue;
    const answers = await ask(one);
    const text = JSON.stringify(answers).replaceAll('],"', '],\n"').replaceAll("},{", "},\n{");
    await writeFile(join(FOLDER, `${one.name}.json`), `${text}\n`);
    const best = answers.prompts[0]!.topLogprobs.map((logprobs) => logprobs[0]!.toFixed(2));
    console.log(`${one.name}: ${text.length} characters, best tokens ${best.slice(-8).join(" ")}`);
  }
}

async function ask(one: OracleCase): Promise<OracleAnswers> {
  const model = one.model();
  const weights = await CheckpointRows.open(syntheticSource(model, one.seed));
  const prompts = one.promptLengths.map((length) => promptTokens(one, length));
  const byReference = one.oracle === "reference";
  const answers = byReference
    ? await askReference(model, weights, prompts)
    : await askLlamaCpp(model, weights, prompts);
  return {
    engine: byReference ? REFERENCE : ENGINE,
    seed: one.seed,
    config: model.config,
    prompts: prompts.map((tokens, i) => record(tokens, answers[i]!)),
  };
}

type Ask = (
  model: SyntheticModel,
  weights: CheckpointRows,
  prompts: readonly (readonly number[])[],
) => Promise<Float64Array[][]>;

const askReference: Ask = async ({ config }, weights, prompts) => {
  const answers: Float64Array[][] = [];
  for (const tokens of prompts) {
    const known = config as unknown as ModelConfig;
    answers.push(await referenceLogProbabilities(known, weights, tokens));
  }
  return answers;
};

const askLlamaCpp: Ask = async (model, weights, prompts) => {
  const folder = await mkdtemp(join(tmpdir(), "wisp-oracle-"));
  try {
    const path = join(folder, "model.gguf");
    await writeGguf(path, ggufModel(model, weights));
    return await logProbabilities(path, prompts);
  } finally {
    await rm(folder, { recursive: true });
  }
};

function record(tokens: readonly number[], rows: readonly Float64Array[]): OraclePrompt {
  const positions = recordedPositions(tokens.length);
  const rounded = (position: number, ids: readonly number[]) =>
    ids.map((id) => Number(rows[position]![id]!.toFixed(DIGITS)));
  const top = positions.map((position) => {
    const row = rows[position]!;
    return [...row.keys()].sort((a, b) => row[b]! - row[a]!).slice(0, TOP_TOKENS);
  });
  return {
    tokens,
    positions,
    next: positions.map((at) =>
      at + 1 < tokens.length ? rounded(at, [tokens[at + 1]!])[0]! : null,
    ),
    top,
    topLogprobs: positions.map((at, i) => rounded(at, top[i]!)),
    fixed: positions.map((at) => rounded(at, FIXED_TOKENS)),
  };
}
