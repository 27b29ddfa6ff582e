/**
 * Images a second and the first token behind an image, on a model of SmolVLM-256M's shape with random
 * weights and a small vocabulary: what of it is reading the file, the vision tower, the prompt. Its
 * tokenizer and its picture are those of `../shared/data`, without which there is nothing to do.
 *
 * Variable: `WISP_BENCH_LAYERS`, layers of the tower and of the text model at most, of 12 and 30.
 *
 * @module
 */
import { readFileSync } from "node:fs";
import { join } from "node:path";
import { performance } from "node:perf_hooks";
import { expect, test } from "vitest";
import { Engine } from "../../src/engine/engine.ts";
import { loadImageProcessor } from "../../src/engine/images/image_processor.ts";
import { loadText } from "../../src/engine/load/text_model.ts";
import { openImage } from "../../src/images/decode_image.ts";
import { patchesOf } from "../../src/images/patches.ts";
import { tilesOf } from "../../src/images/picture_recipe.ts";
import { VisionRunner } from "../../src/models/vision/vision_runner.ts";
import { randomVision } from "../../test/support/checkpoints/random_vision.ts";
import { device } from "../../test/support/devices/gpu.ts";
import { picture, VISION_MODEL, visionFolder } from "../../test/support/engines/vision_engine.ts";
import { writePng } from "../../test/support/images/write_png.ts";
import { machine } from "../support/machine.ts";
import { table } from "../support/table.ts";

const ROUNDS = 3;
const LAYERS = Number(process.env.WISP_BENCH_LAYERS ?? 30);
const FILES = ["tokenizer.json", "tokenizer_config.json", "chat_template.json"];
const TILE = 512;

/** SmolVLM-256M's, whose pictures become one tile. */
function checkpoint() {
  const folder = visionFolder("mini-smolvlm");
  const read = (name: string) => readFileSync(join(folder, name));
  const processor = JSON.parse(read("preprocessor_config.json").toString());
  const sizes = { size: { longest_edge: TILE }, max_image_size: { longest_edge: TILE } };
  const bytes = (value: object) => new TextEncoder().encode(JSON.stringify(value));
  return randomVision({
    family: "idefics3",
    vision: {
      hidden_size: 768,
      intermediate_size: 3072,
      image_size: TILE,
      patch_size: 16,
      num_attention_heads: 12,
      num_hidden_layers: Math.min(12, LAYERS),
    },
    top: { scale_factor: 4, image_token_id: 263 },
    text: {
      config: {
        hidden_size: 576,
        intermediate_size: 1536,
        num_hidden_layers: Math.min(30, LAYERS),
        num_attention_heads: 9,
        num_key_value_heads: 3,
        head_dim: 64,
        rope_theta: 100000,
        vocab_size: 320,
      },
    },
    files: {
      ...Object.fromEntries(FILES.map((name) => [name, new Uint8Array(read(name))])),
      "preprocessor_config.json": bytes({ ...processor, ...sizes }),
    },
  });
}

/** A picture like no other. */
function pictureOf(number: number): Uint8Array {
  const sample = (x: number, y: number, c: number) => (x * 3 + y * (c + 1) + 37 * number) % 256;
  return writePng({ colorType: 2, bitDepth: 8, width: 640, height: 480, sample });
}

interface FirstToken {
  readonly token: number;
  readonly ms: number;
}

async function firstToken(engine: Engine, image: Uint8Array | undefined): Promise<FirstToken> {
  const started = performance.now();
  const sampling = { maxNewTokens: 1, temperature: 0, ignoreEos: true };
  const prompt = `${image === undefined ? "" : "<image>"}What is in this picture?`;
  const request = { prompt, sampling, ...(image && { images: [image] }) };
  for await (const { tokens } of engine.generate(request)) {
    if (tokens.length > 0) return { token: tokens[0]!, ms: performance.now() - started };
  }
  throw new Error("no token");
}

const least = (values: readonly number[]) => Math.min(...values);
const shown = (ms: number) => ms.toFixed(1);

test.skipIf(VISION_MODEL === undefined)(
  "images",
  async () => {
    const source = await checkpoint();
    const towers: number[] = [];
    const { run } = VisionRunner.prototype;
    VisionRunner.prototype.run = async function (this: VisionRunner, ...given) {
      const started = performance.now();
      const rows = await run.apply(this, given);
      towers.push(performance.now() - started);
      return rows;
    };
    const given = { device, maxTotalTokens: 1024, triesInvariance: false };
    const engine = await Engine.load(source, given);
    try {
      const { tokenizer } = await loadText(source);
      const facts = { kind: "idefics3", tileSide: TILE, patchSide: 16, tileTokens: 64 } as const;
      const vision = { ...facts, placeholder: 263 };
      const processor = (await loadImageProcessor(source, { vision }, tokenizer))!;
      await firstToken(engine, picture("photo.png"));
      const times: Record<string, number[]> = {};
      const note = (name: string, ms: number) => {
        times[name] = [...(times[name] ?? []), ms];
      };
      for (let round = 0; round < ROUNDS; round++) {
        const image = pictureOf(round);
        const started = performance.now();
        const pixels = await openImage(image).decode();
        note("decode a PNG of 640 x 480", performance.now() - started);
        const prepared = processor.prepare(pixels, { count: 1 });
        const [tile] = await tilesOf(pixels, prepared.recipe);
        await patchesOf(tile!, prepared.recipe);
        note("and resample it, and normalize patches", performance.now() - started);
        await engine.flushCache();
        const fresh = await firstToken(engine, image);
        note("vision tower", towers.at(-1)!);
        note("first token of a new image", fresh.ms);
        await engine.flushCache();
        const seen = await firstToken(engine, image);
        expect(seen.token).toBe(fresh.token);
        note("first token of an image that was seen: its rows are kept", seen.ms);
        const cached = await firstToken(engine, image);
        expect(cached.token).toBe(fresh.token);
        note("and its prompt is cached", cached.ms);
        await engine.flushCache();
        note("first token of the text alone", (await firstToken(engine, undefined)).ms);
      }
      expect(towers).toHaveLength(ROUNDS + 1);
      console.log(machine());
      const rows = Object.entries(times).map(([name, all]) => [name, shown(least(all))]);
      console.log(table(["of one image", "ms"], rows));
      const each = least(times["vision tower"]!);
      console.log(`the tower alone: ${(1000 / each).toFixed(2)} images a second`);
      // Several requests: files of the next ones are read while the tower computes.
      const images = Array.from({ length: 4 }, (_, i) => pictureOf(100 + i));
      const started = performance.now();
      await Promise.all(images.map((image) => firstToken(engine, image)));
      const seconds = (performance.now() - started) / 1000;
      console.log(
        `${images.length} requests at once: ${(images.length / seconds).toFixed(2)} images a second`,
      );
    } finally {
      VisionRunner.prototype.run = run;
      await engine.close();
    }
  },
  600_000,
);
