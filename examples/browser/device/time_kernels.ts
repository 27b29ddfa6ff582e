/**
 * Times the kernels of prefill and of decode beside what the adapter can do.
 *
 * @module
 */
import type { GenerationEngine, Profile } from "wisp-llm";
import type { KernelFigures, MeasureSettings } from "./device_report.ts";
import { fixed, SHORT_PROMPT, type TimedRequests } from "./timed_requests.ts";

export type ProfilingRequests = TimedRequests & {
  readonly engine: Pick<GenerationEngine, "profile">;
};

/** @throws {Error} naming the feature where the adapter cannot take times. */
export async function timeKernels(
  requests: ProfilingRequests,
  { prefillTokens, decodeTokens }: MeasureSettings,
): Promise<KernelFigures> {
  const { engine } = requests;
  if (engine.profile === undefined) throw new Error("This engine cannot be measured");
  await engine.flushCache();
  // The adapter's rates are measured first, once for both.
  const prefill = await engine.profile(() =>
    drain(engine.generate(fixed(requests, { promptTokens: prefillTokens, newTokens: 1 }))),
  );
  const decode = await profileDecode(requests, decodeTokens);
  const durations = [...prefill.launches, ...decode.launches].map(({ duration }) => duration);
  return {
    rates: prefill.rates,
    grainMicroseconds: grainOf(durations),
    phases: [
      { phase: "prefill", steps: prefill.steps, kernels: prefill.kernels },
      { phase: "decode", steps: decode.steps, kernels: decode.kernels },
    ],
  };
}

/** The greatest time that all of these, in microseconds of whole nanoseconds, are multiples of. */
export function grainOf(durations: readonly number[]): number {
  const common = (a: number, b: number): number => (b === 0 ? a : common(b, a % b));
  const nanoseconds = durations.map((duration) => Math.round(1000 * duration));
  return nanoseconds.reduce(common, 0) / 1000;
}

/** Begins once the prompt is through, so that only steps of one row are in it. */
async function profileDecode(requests: ProfilingRequests, tokens: number): Promise<Profile> {
  const { engine } = requests;
  const request = fixed(requests, { promptTokens: SHORT_PROMPT, newTokens: tokens });
  const answer = engine.generate(request)[Symbol.asyncIterator]();
  await answer.next();
  return engine.profile!(async () => {
    while (!(await answer.next()).done) {
      // Only how long its launches take is of interest.
    }
  });
}

async function drain(chunks: AsyncIterable<unknown>): Promise<void> {
  for await (const _ of chunks) {
    // As above.
  }
}
