/** What is told of a model that drafts beside the one that is inspected. */
import { mkdirSync, mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { expect, test } from "vitest";
import type { WeightSource } from "../../../src/checkpoint/source.ts";
import { inspectCheckpoint } from "../../../src/engine/load/inspect_checkpoint.ts";
import { runCommand } from "../../../src/node/command.ts";
import { EMBEDDED_MODEL } from "../../support/checkpoints/embedded_model.ts";
import { exportLayer } from "../../support/checkpoints/exported_layer.ts";
import { folderSource } from "../../support/checkpoints/folder_source.ts";
import { randomEagle } from "../../support/checkpoints/random_eagle.ts";
import { randomGqa } from "../../support/checkpoints/random_gqa.ts";

const published = ({ weights }: Awaited<ReturnType<typeof inspectCheckpoint>>) => weights[0]!;

test("the weights of a model that drafts, and its share of the cache, are counted", async () => {
  const options = { deviceMemory: [2 ** 24], contextLength: 64, concurrency: 4 };
  const small = await inspectCheckpoint(randomGqa(), options);
  const large = { config: { num_hidden_layers: 3 } };
  const alone = await inspectCheckpoint(randomGqa(large), options);
  const report = await inspectCheckpoint(randomGqa(large), { ...options, draftModel: randomGqa() });
  const { gpuBytes: draftBytes } = published(small);
  expect(report.draft).toEqual({
    name: small.name,
    algorithm: "STANDALONE",
    architecture: "LlamaForCausalLM",
    gpuBytes: draftBytes,
    cacheBytesPerToken: small.cacheBytesPerToken,
  });
  expect(published(report).gpuBytes).toBe(published(alone).gpuBytes);
  expect(report.demand.cacheBytes).toBe(alone.demand.cacheBytes + small.demand.cacheBytes);
  const perToken = report.cacheBytesPerToken.bf16 + small.cacheBytesPerToken.bf16;
  const room = 2 ** 24 * 0.88 - published(alone).gpuBytes! - draftBytes!;
  const fit = { devices: 1, nodes: 1, cacheTokens: Math.floor(room / perToken) };
  expect(published(report).devices[0]!.fit).toEqual(fit);
  expect(alone.draft).toBeUndefined();
});

test("a head is told by what it drafts with, one that does not fit is refused", async () => {
  const told = (head: WeightSource) => inspectCheckpoint(randomGqa(), { draftModel: head });
  const usual = { eagle_config: { eagle_aux_hidden_state_layer_ids: [0, 0, 0] } };
  const { draft } = await told(randomEagle({ generation: "EAGLE3", config: usual }));
  expect(draft).toMatchObject({ algorithm: "EAGLE3", architecture: "LlamaForCausalLMEagle3" });
  const narrow = randomEagle({ generation: "EAGLE", config: { hidden_size: 80 } });
  await expect(told(narrow)).rejects.toThrow("rows have 80 elements, the model's 72");
  const other = randomEagle({ generation: "EAGLE", config: { vocab_size: 264 } });
  await expect(told(other)).rejects.toThrow("a vocabulary of 264 tokens, the model one of 263");
});

test("an exported layer is one of the model's", async () => {
  const whole = folderSource(EMBEDDED_MODEL);
  const { target, exported: draftModel } = await exportLayer(whole, { layer: 5 });
  const report = await inspectCheckpoint(target, { draftModel });
  expect(report).toMatchObject({ draftLayers: 1, problem: undefined });
  expect(report.draft).toBeUndefined();
});

test("wisp inspect has a line of the model that drafts", async () => {
  const folder = mkdtempSync(join(tmpdir(), "wisp-inspect-draft-"));
  try {
    const paths = [];
    for (const [name, source] of [
      ["large", randomGqa({ config: { num_hidden_layers: 3 } })],
      ["small", randomGqa()],
    ] as const) {
      const path = join(folder, name);
      mkdirSync(path);
      for (const { name: file, size } of await source.list()) {
        writeFileSync(join(path, file), await source.read(file, 0, size));
      }
      paths.push(path);
    }
    const text = { stdout: "", stderr: "" };
    const into = (name: keyof typeof text) => ({ write: (chunk: string) => (text[name] += chunk) });
    const args = [paths[0]!, "--speculative-draft-model-path", paths[1]!, "--device-memory", "1G"];
    const context = { stdout: into("stdout"), stderr: into("stderr") };
    const code = await runCommand(["inspect", ...args], context as never);
    expect({ code, stderr: text.stderr }).toEqual({ code: 0, stderr: "" });
    expect(text.stdout).toContain(
      `Draft model     ${paths[1]} (STANDALONE, LlamaForCausalLM): 0.4 MiB of weights, 320 bytes of cache per token\n`,
    );
    expect(text.stdout).toContain("Devices for the weights, those of the draft model, and one");
  } finally {
    rmSync(folder, { recursive: true });
  }
});
