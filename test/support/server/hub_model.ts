/**
 * A made-up model on a hub, and an empty cache to download it into.
 *
 * @module
 */
import { mkdtempSync, readdirSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import type { DownloadOptions } from "../../../src/node/hub/download_model.ts";
import { type HubModel, type HubServer, type HubServerOptions, serveHub } from "./hub_server.ts";

export const ID = "org/tiny-1.0";
export const COMMIT = "c0ffee".padEnd(40, "0");
export const SHARDS = [
  "model-00001-of-00002.safetensors",
  "model-00002-of-00002.safetensors",
] as const;

const text = (value: string) => new TextEncoder().encode(value);

/** Bytes that no two positions share in order. */
export function noise(length: number, seed: number): Uint8Array<ArrayBuffer> {
  let state = seed;
  return Uint8Array.from({ length }, () => {
    state = (Math.imul(state, 1664525) + 1013904223) >>> 0;
    return state >>> 24;
  });
}

/** What a download has to fetch. */
export const WANTED: ReadonlyMap<string, Uint8Array> = new Map([
  ["config.json", text('{"architectures": ["TinyForCausalLM"]}')],
  ["generation_config.json", text("{}")],
  ["tokenizer.json", text('{"model": {}}')],
  ["tokenizer_config.json", text("{}")], // the same bytes as another file
  ["chat_template.jinja", text("{{ messages }}")],
  [
    "model.safetensors.index.json",
    text(JSON.stringify({ weight_map: { a: SHARDS[0], b: SHARDS[1], c: SHARDS[0] } })),
  ],
  [SHARDS[0], noise(300_000, 1)],
  [SHARDS[1], noise(200_000, 2)],
]);

/** What a repository has besides. */
const OTHERS: ReadonlyMap<string, Uint8Array> = new Map([
  ["README.md", text("# tiny")],
  ["modeling_tiny.py", text("raise SystemExit")],
  ["pytorch_model.bin", noise(1000, 3)],
  ["pytorch_model.bin.index.json", text("{}")],
  ["tiny-q4.gguf", noise(1000, 4)],
  ["consolidated.safetensors", noise(1000, 5)],
  ["original/consolidated.safetensors", noise(1000, 6)],
  ["onnx/config.json", text("{}")],
  ["onnx/ranks.tiktoken", text("{}")],
  ["../../../outside.tiktoken", text("{}")],
]);

export const MODEL: HubModel = { id: ID, commit: COMMIT, files: new Map([...WANTED, ...OTHERS]) };

export interface HubFixture {
  readonly hub: HubServer;
  /** Value of HF_HUB_CACHE. */
  readonly cache: string;
  readonly options: DownloadOptions;
  /** Sentences of the report. */
  readonly notes: string[];
  /** Bytes here, as reported. */
  readonly progress: number[];
  /** A path inside the model's folder of the cache. */
  path(...parts: readonly string[]): string;
  /** Names in a folder of the model's folder; none when there is no such folder. */
  names(...parts: readonly string[]): readonly string[];
  close(): Promise<void>;
}

/** A hub with a model, and options that download it quickly into an empty cache. */
export async function hubFixture(
  server: HubServerOptions = {},
  model: HubModel = MODEL,
): Promise<HubFixture> {
  const hub = await serveHub(model, server);
  const root = mkdtempSync(join(tmpdir(), "wisp-hub-"));
  const cache = join(root, "hub");
  const notes: string[] = [];
  const progress: number[] = [];
  const path = (...parts: readonly string[]) =>
    join(cache, `models--${model.id.replace("/", "--")}`, ...parts);
  return {
    hub,
    cache,
    notes,
    progress,
    path,
    options: {
      env: { HF_HUB_CACHE: cache, HF_ENDPOINT: hub.url, HF_HOME: root },
      policy: { retries: 3, backoff: 2, longestWait: 40, progressBytes: 1e6 },
      idleTimeout: 10_000,
      report: {
        note: (sentence) => notes.push(sentence),
        progress: (done) => progress.push(done),
      },
    },
    names: (...parts) => {
      try {
        return readdirSync(path(...parts)).sort();
      } catch {
        return [];
      }
    },
    close: async () => {
      await hub.close();
      rmSync(root, { recursive: true, force: true });
    },
  };
}
