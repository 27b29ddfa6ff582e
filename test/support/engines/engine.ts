/**
 * The real engine on the embedded model, for tests.
 *
 * @module
 */
import { Engine } from "../../../src/engine/engine.ts";
import type { LoadOptions } from "../../../src/engine/load/load_options.ts";
import type {
  GenerationChunk,
  GenerationEngine,
  GenerationRequest,
} from "../../../src/generation.ts";
import { EMBEDDED_MODEL } from "../checkpoints/embedded_model.ts";
import { folderSource } from "../checkpoints/folder_source.ts";
import { device } from "../devices/gpu.ts";

export { EMBEDDED_MODEL };

export function openEngine(options: Partial<LoadOptions> = {}): Promise<Engine> {
  const given = { device, maxTotalTokens: 8192, triesInvariance: false, ...options };
  return Engine.load(folderSource(EMBEDDED_MODEL), given);
}

export interface Completion {
  readonly text: string;
  readonly tokens: readonly number[];
  readonly last: GenerationChunk;
}

/** The whole answer to one request. */
export async function complete(
  engine: Pick<GenerationEngine, "generate">,
  request: GenerationRequest,
): Promise<Completion> {
  let text = "";
  const tokens: number[] = [];
  let last: GenerationChunk | undefined;
  for await (const chunk of engine.generate(request)) {
    text += chunk.text;
    tokens.push(...chunk.tokens);
    last = chunk;
  }
  return { text, tokens, last: last! };
}

export const chat = (content: string) => [{ role: "user", content }] as const;
