/**
 * How fast llama.cpp is on the CPU with the shape of Qwen3-0.6B, all layers and the whole
 * vocabulary: `npm run bench:peers -- speed [q4_0|q8_0|f16..]`.
 *
 * @module
 */
import { mkdtemp, rm } from "node:fs/promises";
import { availableParallelism, tmpdir } from "node:os";
import { join } from "node:path";
import { qwen3 } from "../../test/support/synthetic/qwen3.ts";
import { syntheticSource } from "../../test/support/synthetic/source.ts";
import { CheckpointRows } from "./checkpoint_rows.ts";
import { ggufModel } from "./gguf_model.ts";
import { type GgufType, writeGguf } from "./gguf_writer.ts";
import { speed } from "./llama_cpp.ts";

/** What the published model has and the small ones of the tests do not. */
const WHOLE = { num_hidden_layers: 28, vocab_size: 151936 };
const PROMPT = Array.from({ length: 128 }, (_, i) => (i * 7919) % WHOLE.vocab_size);
const GENERATED = 16;
const ROUNDS = 3;
const TYPES: readonly GgufType[] = ["q4_0", "q8_0", "f16"];

/** @param names Types; q4_0 when none is given. */
export async function main(names: readonly string[]): Promise<void> {
  const unknown = names.filter((name) => !TYPES.includes(name as GgufType));
  if (unknown.length > 0) throw new Error(`Cannot write ${unknown}: known are ${TYPES}`);
  const model = qwen3(WHOLE);
  const weights = await CheckpointRows.open(syntheticSource(model, 1));
  for (const type of names.length > 0 ? (names as readonly GgufType[]) : TYPES.slice(0, 1)) {
    const folder = await mkdtemp(join(tmpdir(), "wisp-peers-"));
    try {
      const path = join(folder, "model.gguf");
      await writeGguf(path, ggufModel(model, weights, type));
      for (const threads of new Set([1, availableParallelism()])) {
        const options = { prompt: PROMPT, count: GENERATED, threads, rounds: ROUNDS };
        const { prompt, generated } = await speed(path, options);
        const measured = `prompt ${prompt.toFixed(1)} tokens/s, generated ${generated.toFixed(1)}`;
        console.log(`llama.cpp ${type}, ${threads} threads: ${measured} tokens/s`);
      }
    } finally {
      await rm(folder, { recursive: true });
    }
  }
}
