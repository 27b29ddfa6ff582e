/**
 * llama.cpp on the CPU: log-probabilities of every token after every token of a prompt.
 *
 * The package is no dependency of ours, so what is used of it is written down here.
 *
 * @module
 */

const PACKAGE = new URL("../node_modules/node-llama-cpp/dist/index.js", import.meta.url).href;

interface NodeLlamaCpp {
  getLlama(options: object): Promise<Llama>;
}

interface Llama {
  loadModel(options: object): Promise<LlamaModel>;
  dispose(): Promise<void>;
}

interface LlamaModel {
  createContext(options: object): Promise<LlamaContext>;
  dispose(): Promise<void>;
}

interface LlamaContext {
  getSequence(): LlamaSequence;
}

interface LlamaSequence {
  controlledEvaluate(input: readonly (readonly [number, object])[]): Promise<readonly Result[]>;
  clearHistory(): Promise<void>;
}

interface Result {
  readonly next: {
    readonly probabilities: ReadonlyMap<number, number>;
  };
}

const CONTEXT = 256;
const SIZES = { contextSize: CONTEXT, batchSize: CONTEXT, ignoreMemorySafetyChecks: true };

/** Everything in f32: no quantized activations, no fused attention, no half-precision cache. */
const EXACT = {
  flashAttention: false,
  experimentalKvCacheKeyType: "F32",
  experimentalKvCacheValueType: "F32",
};

/** The whole distribution, as softmax of the logits. */
const EVERY_TOKEN = {
  generateNext: {
    probabilities: true,
    options: { temperature: 1, topK: 0, topP: 1, minP: 0 },
  },
};

export const ENGINE = "llama.cpp v0.5.0 through node-llama-cpp 3.22.1, CPU, f32";

/** For each prompt and each of its positions the log-probabilities of all tokens. */
export function logProbabilities(
  modelPath: string,
  prompts: readonly (readonly number[])[],
): Promise<Float64Array[][]> {
  return withModel(modelPath, async (model) => {
    const sequence = (await model.createContext({ ...SIZES, ...EXACT })).getSequence();
    const answers: Float64Array[][] = [];
    for (const tokens of prompts) {
      await sequence.clearHistory();
      const results = await sequence.controlledEvaluate(
        tokens.map((token) => [token, EVERY_TOKEN] as const),
      );
      answers.push(
        results.map(({ next: { probabilities } }) => {
          const row = new Float64Array(probabilities.size);
          for (const [token, probability] of probabilities) row[token] = Math.log(probability);
          return row;
        }),
      );
    }
    return answers;
  });
}

async function withModel<T>(
  modelPath: string,
  work: (model: LlamaModel) => Promise<T>,
): Promise<T> {
  const { getLlama } = (await import(/* @vite-ignore */ PACKAGE)) as NodeLlamaCpp;
  const llama = await getLlama({ gpu: false, build: "never", logLevel: "error" });
  try {
    const loading = { modelPath, gpuLayers: 0, ignoreMemorySafetyChecks: true };
    const model = await llama.loadModel(loading);
    const result = await work(model);
    await model.dispose();
    return result;
  } finally {
    await llama.dispose();
  }
}
