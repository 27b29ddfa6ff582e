/**
 * Loads the embedded model for a measurement, in a worker as the chat does.
 *
 * @module
 */
import { loadWorkerEngine } from "wisp-llm/browser";
import type { MeasureSettings } from "./device_report.ts";
import type { MeasuredEngine } from "./measure.ts";
import { SHORT_PROMPT } from "./timed_requests.ts";

/** For the question with one right answer. */
const LEAST_CONTEXT = 128;

/** Where each phase begins and ends in the loading, about. */
const PHASES = { adapter: [0, 0.1], weights: [0.1, 0.5], pipelines: [0.5, 1] } as const;

export interface LoadEmbeddedOptions {
  /** Address of its folder. */
  readonly url: string;
  readonly signal: AbortSignal;
  readonly settings: MeasureSettings;
  /** Called with the share of the loading that is done, about. */
  readonly onProgress: (share: number) => void;
}

export async function loadEmbedded(options: LoadEmbeddedOptions): Promise<MeasuredEngine> {
  const { url, signal, settings, onProgress } = options;
  const { prefillTokens, decodeTokens, batch } = settings;
  return loadWorkerEngine(
    { kind: "url", url },
    {
      signal,
      contextLength: Math.max(LEAST_CONTEXT, prefillTokens + 1, SHORT_PROMPT + decodeTokens),
      maxRunningRequests: batch,
      onProgress: ({ phase, done, total }) => {
        const [from, to] = PHASES[phase];
        onProgress(from + (to - from) * (done / Math.max(total, 1)));
      },
    },
  );
}
