/**
 * What went wrong, and what the visitor can do about it.
 *
 * Errors are told apart by their names and words, because those of the worker are of other classes.
 *
 * @module
 */

export interface Explanation {
  readonly text: string;
  /** A sentence or two; absent where the text says it all. */
  readonly advice?: string;
}

interface Rule {
  readonly name?: RegExp;
  readonly message?: RegExp;
  readonly advice: string;
}

const RULES: readonly Rule[] = [
  {
    message: /has no WebGPU/,
    advice:
      "Chrome and Edge have it from version 113 on, Safari from 26, Firefox from 141 on Windows " +
      "and from 145 on Macs with Apple's chips.",
  },
  {
    message: /offers none on this machine/,
    advice:
      "Switch on graphics acceleration in the browser's settings and update the GPU's driver. " +
      "Chrome on Linux may want chrome://flags/#enable-unsafe-webgpu.",
  },
  {
    name: /QuotaExceeded|StorageFull/,
    advice: "Delete models that you no longer use from the list, or load a smaller one.",
  },
  {
    message: /its weights take|Cannot cache \d+ tokens/,
    advice:
      "Choose int4 or a shorter context under Options, or say there that the device has more " +
      "memory, if it does.",
  },
  {
    message: /out of memory|allocation|Cannot allocate/i,
    advice: "Close other pages that use the GPU, choose int4, or load a smaller model.",
  },
  {
    message: /cannot be reached|Failed to fetch|NetworkError/,
    advice:
      "Check the address and the connection. The server must allow other pages to read from it " +
      "(CORS).",
  },
  {
    message: /has no such file|range requests/,
    advice:
      "The address must be a folder that has config.json, tokenizer.json and .safetensors files, " +
      "on a server that answers range requests.",
  },
  {
    message: /401|403|gated/i,
    advice: "The model is not open to every account, or there is none of this name.",
  },
  { message: /device (was|is) lost/i, advice: "Load the model again." },
  {
    message: /prompt .*(too long|longer)|context/i,
    advice: "Begin a new chat, or load the model with a longer context.",
  },
];

export function explainError(error: unknown): Explanation {
  const { name, message } = error instanceof Error ? error : new Error(String(error));
  const rule = RULES.find(
    (one) => (one.name?.test(name) ?? true) && (one.message?.test(message) ?? true),
  );
  return rule === undefined ? { text: message } : { text: message, advice: rule.advice };
}
