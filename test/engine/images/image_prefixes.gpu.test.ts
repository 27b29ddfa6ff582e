/** Prompts with images where they are found again: by the next turn, by the next engine, elsewhere. */
import { mkdtemp, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterEach, describe, expect, test } from "vitest";
import type { Engine } from "../../../src/engine/engine.ts";
import type { LoadOptions } from "../../../src/engine/load/load_options.ts";
import type { GenerationRequest } from "../../../src/generation.ts";
import { deviceFactory } from "../../../src/node/device/device.ts";
import { prefixFiles } from "../../../src/node/prefix_files.ts";
import { fullTest } from "../../support/devices/gpu.ts";
import {
  openVisionEngine,
  picture,
  see,
  VISION_MODEL,
  VISION_MODELS,
  type VisionModel,
} from "../../support/engines/vision_engine.ts";
import { apart } from "../../support/exactness/apart.ts";
import { negativeOf } from "../../support/exactness/vision_models.ts";
import { until } from "../../support/until.ts";

const PLACE = { "mini-qwen2.5-vl": "<|vision_start|><|image_pad|><|vision_end|>" } as Readonly<
  Partial<Record<VisionModel, string>>
>;
const MODELS = fullTest ? VISION_MODELS : (["mini-smolvlm", "mini-qwen2.5-vl"] as const);
const QUESTION = "What do you see in this picture, and what stands behind it? ".repeat(2);

const request = (model: VisionModel, image: Uint8Array): GenerationRequest => ({
  prompt: `${PLACE[model] ?? "<image>"}${QUESTION}`,
  images: [image],
  sampling: { temperature: 0, maxNewTokens: 6, ignoreEos: true },
  logprobs: {},
});

const open = (model: VisionModel, options: Partial<LoadOptions> = {}): Promise<Engine> =>
  openVisionEngine({ cacheDtype: "f32", ...options }, model);

describe.skipIf(VISION_MODEL === undefined).each(MODELS)(
  "prompts with images of %s (needs ../shared/data)",
  (model) => {
    let engines: { close(): Promise<void> }[] = [];
    let folder: string | undefined;
    afterEach(async () => {
      for (const one of engines) await one.close();
      engines = [];
      if (folder !== undefined) await rm(folder, { recursive: true });
      folder = undefined;
    });
    const opened = async (options: Partial<LoadOptions> = {}) => {
      const engine = await open(model, options);
      engines.push(engine);
      return engine;
    };

    test("stored by one engine they are restored by the next, and never for another picture", async () => {
      folder = await mkdtemp(join(tmpdir(), "wisp-prefixes-"));
      const problems: string[] = [];
      const prefixStore = {
        storage: prefixFiles(folder),
        maxWait: 60,
        onProblem: (problem: string) => problems.push(problem),
      };
      const asked = request(model, picture("photo.png"));
      const first = await opened({ prefixStore });
      const want = await see(first, { ...asked, storePrefix: true });
      const stored = Math.floor(want.promptTokens / 64) * 64;
      expect(stored).toBeGreaterThanOrEqual(128);
      await until(() => expect(first.status().prefixStore!.storedTokens).toBe(stored));

      const next = await opened({ prefixStore });
      const other = request(model, await negativeOf("photo.png"));
      const unlike = await see(next, other);
      expect([unlike.promptTokens, unlike.cachedTokens]).toEqual([want.promptTokens, 0]);
      const again = await see(next, asked);
      expect(again).toEqual({ ...want, cachedTokens: stored });
      // The beginning was there: what stands in front of a row that is another picture's.
      expect(next.status().prefixStore!.restoredTokens).toBeGreaterThan(stored - 8);
      const plain = await opened();
      expect((await see(plain, other)).logprobs).toEqual(unlike.logprobs);
      expect(problems).toEqual([]);
    });

    test("the next turn finds the whole last one, its image and its answer", async () => {
      const engine = await opened();
      const asked = request(model, picture("photo.png"));
      const regex = "[a-z]{6}";
      const sampling = { ...asked.sampling, regex };
      let said = "";
      const first = { ...asked, sampling };
      let promptTokens = 0;
      for await (const chunk of engine.generate(first)) {
        said += chunk.text;
        ({ promptTokens } = chunk);
      }
      expect(said).toMatch(/^[a-z]{6}$/);
      const images = [picture("photo.png"), picture("tall.png")];
      const prompt = `${asked.prompt}${said} And this one? ${PLACE[model] ?? "<image>"}`;
      const second = await see(engine, { ...asked, prompt, images });
      // The last token of an answer is computed by what comes behind it.
      expect(second.cachedTokens).toBe(promptTokens + said.length - 1);
      const plain = await opened({ prefixCache: false });
      const { cachedTokens: _, ...bits } = await see(plain, { ...asked, prompt, images });
      expect(second).toMatchObject(bits);
    });

    test("a device that is lost with a half answered prompt is replaced, to the same bits", async () => {
      const want = await see(await opened(), request(model, picture("photo.png")));
      const openDevice = deviceFactory();
      for (const step of fullTest ? [1, 2, 3, 4, 6] : [2, 5]) {
        let device: GPUDevice | undefined;
        let steps = 0;
        const engine = await opened({
          device: async () => {
            device = await openDevice();
            return device;
          },
          recoveryWaits: [0, 0, 0],
          maxPrefillTokens: 40,
          onStep: () => {
            steps += 1;
            if (steps === step) device!.destroy();
          },
        });
        expect(await see(engine, request(model, picture("photo.png")))).toEqual(want);
        expect(engine.status().recoveries).toBe(1);
      }
    });

    test("servers of a pair that see different pictures tell so, and go on", async () => {
      const travels = { transfersPages: true };
      const [prefill, decode] = [await open(model, travels), await open(model, travels)];
      const pair = apart(prefill, decode);
      engines.push(pair);
      const mine = request(model, picture("photo.png"));
      const other = request(model, await negativeOf("photo.png"));
      const both = { prefill: mine, decode: other };
      await expect(see(pairOf(pair, both), mine)).rejects.toThrow(/prompt/);
      const plain = await opened();
      const answer = await see(pairOf(pair, { prefill: mine, decode: mine }), mine);
      expect(answer).toEqual(await see(plain, mine));
      expect(await pair.left()).toEqual((await pair.left()).map(() => 0));
    });
  },
);

/** A pair whose servers read different requests, as where a URL gives another picture each time. */
function pairOf(
  pair: ReturnType<typeof apart>,
  requests: { readonly prefill: GenerationRequest; readonly decode: GenerationRequest },
): Pick<Engine, "generate"> {
  return { generate: () => pair.generate(requests.decode, requests.prefill) };
}
