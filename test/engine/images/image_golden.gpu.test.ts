import { join } from "node:path";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { Engine } from "../../../src/engine/engine.ts";
import type { ChatMessage, GenerationRequest } from "../../../src/generation.ts";
import type { PromptLogprobs, TokenLogprobs } from "../../../src/logprobs.ts";
import { folderSource, SHARED_MODELS } from "../../support/checkpoints/folder_source.ts";
import { device } from "../../support/devices/gpu.ts";
import { sharedBytes, sharedJson } from "../../text/shared_data.ts";

interface Case {
  readonly name: string;
  readonly messages: readonly {
    readonly role: string;
    readonly content: string | readonly ({ type: "text"; text: string } | { type: "image_url" })[];
  }[];
  readonly images: readonly string[];
  readonly input_ids: readonly number[];
  readonly image_token_id: number;
  readonly input_logprobs: readonly (number | null)[];
  readonly processor_overrides?: object;
  readonly greedy: { readonly ids: readonly number[]; readonly margin: readonly number[] };
}

/** What the golden data allows with keys and values in f32. */
const TOLERANCE = 3e-4;
const CLOSE = 0.05;

describe.skipIf(SHARED_MODELS === undefined)("answers about images (needs ../shared/data)", () => {
  let engine: Engine;
  let cases: readonly Case[];
  beforeAll(async () => {
    ({ cases } = sharedJson<{ cases: readonly Case[] }>("vision/golden/mini-smolvlm.w.f32kv.json"));
    const source = folderSource(join(SHARED_MODELS!, "../vision/models/mini-smolvlm"));
    engine = await Engine.load(source, {
      device,
      cacheDtype: "f32",
      maxTotalTokens: 2048,
      // Chunks end inside of images.
      maxPrefillTokens: 48,
    });
  });
  afterAll(() => engine?.close());

  const requestOf = ({ messages, images }: Case): GenerationRequest => ({
    messages: messages.map(({ role, content }) => ({ role, content: partsOf(content) })),
    images: images.map((name) => {
      const decoded = `images/decoded/${name.replace(".", "_")}.png`;
      return sharedBytes(`vision/${name.endsWith(".png") ? `images/${name}` : decoded}`);
    }),
    sampling: { temperature: 0, maxNewTokens: 16, ignoreEos: true },
    logprobs: { promptStart: 0 },
  });

  async function answer(request: GenerationRequest) {
    const prompt: PromptLogprobs[] = [];
    const drawn: TokenLogprobs[] = [];
    const tokens: number[] = [];
    let [promptTokens, cachedTokens] = [0, 0];
    for await (const chunk of engine.generate(request)) {
      prompt.push(...(chunk.promptLogprobs ?? []));
      drawn.push(...(chunk.logprobs ?? []));
      tokens.push(...chunk.tokens);
      ({ promptTokens, cachedTokens } = chunk);
    }
    return { prompt, drawn, tokens, promptTokens, cachedTokens };
  }

  test("each prompt's tokens, log-probabilities and greedy answer, then again from the cache", async () => {
    const seen = cases.filter(
      ({ name, processor_overrides }) => name !== "rgba_white" && processor_overrides === undefined,
    );
    expect(seen.length).toBeGreaterThan(15);
    for (const one of seen) {
      const request = requestOf(one);
      const first = await answer(request);
      expect(first.promptTokens, one.name).toBe(one.input_ids.length);
      one.input_ids.forEach((id, i) => {
        const at = `${one.name}, position ${i}`;
        const got = first.prompt[i]!;
        if (id === one.image_token_id) {
          expect(got, at).toEqual({ token: null, logprob: null, top: null, given: null });
          return;
        }
        expect(got.token, at).toBe(id);
        if (i === 0) expect(got.logprob).toBeNull();
        else expect(Math.abs(got.logprob! - one.input_logprobs[i]!), at).toBeLessThan(TOLERANCE);
      });
      const tie = one.greedy.margin.findIndex((margin) => margin <= CLOSE);
      const sure = tie < 0 ? one.greedy.ids.length : tie;
      expect(first.tokens.slice(0, sure), one.name).toEqual(one.greedy.ids.slice(0, sure));

      const { logprobs: _, ...alone } = request;
      const again = await answer({ ...alone, logprobs: {} });
      expect(again.cachedTokens, one.name).toBe(one.input_ids.length - 1);
      expect(again.tokens, one.name).toEqual(first.tokens);
      expect(again.drawn.map(({ logprob }) => logprob)).toEqual(
        first.drawn.map(({ logprob }) => logprob),
      );
    }
  });
});

function partsOf(content: Case["messages"][number]["content"]): ChatMessage["content"] {
  if (typeof content === "string") return content;
  return content.map((part) => (part.type === "text" ? part : { type: "image" }));
}
