/**
 * A model of one layer behind a router of a pair, and by one server alone, whose answers are right.
 *
 * @module
 */
import { syntheticSource, writeFolder } from "../../../support/synthetic/source.ts";
import { tinyLlama } from "../../../support/synthetic/tiny_models.ts";
import { adapterName, type ServingWisp, scratch, serveWisp } from "../wisp.ts";
import { type PairOptions, RunningPair } from "./running_pair.ts";

export interface ComparedPair {
  readonly pair: RunningPair;
  readonly alone: ServingWisp;
}

/** @returns Options of a server of the model. */
export async function tinyModel(): Promise<readonly string[]> {
  const folder = scratch("one-layer");
  await writeFolder(syntheticSource(tinyLlama(), 5), folder);
  return ["--model-path", folder, ...EMBEDDED];
}

/** Of a server of the embedded model. */
export const EMBEDDED = ["--adapter", adapterName(), "--grammar-backend", "auto"] as const;

const ALONE = [
  ...["--context-length", "2048", "--page-size", "4", "--random-seed", "7"],
  ...["--max-total-tokens", "8192"],
];

/** @param alone One that runs already. */
export async function comparedPair(
  options: PairOptions,
  alone?: Promise<ServingWisp>,
): Promise<ComparedPair> {
  const [one, pair] = await Promise.all([
    alone ?? serveAlone(options.model),
    RunningPair.start(options),
  ]);
  return { pair, alone: one };
}

export const serveAlone = (model: readonly string[]): Promise<ServingWisp> =>
  serveWisp([...model, ...ALONE]);
