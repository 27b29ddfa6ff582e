/** An exported draft layer drafts as if it lay in the checkpoint, and is refused where it does not fit. */
import { describe, expect, test } from "vitest";
import { Engine } from "../../../src/engine/engine.ts";
import { CheckpointError, InvalidRequestError } from "../../../src/errors.ts";
import { EMBEDDED_MODEL } from "../../support/checkpoints/embedded_model.ts";
import { type ExportOptions, exportLayer } from "../../support/checkpoints/exported_layer.ts";
import { folderSource } from "../../support/checkpoints/folder_source.ts";
import type { RawTensor } from "../../support/checkpoints/write_checkpoint.ts";
import { device } from "../../support/devices/gpu.ts";

const EAGLE = { algorithm: "EAGLE", numSteps: 3, eagleTopk: 1, numDraftTokens: 4 } as const;
const OPTIONS = { device, maxTotalTokens: 512, contextLength: 128, triesInvariance: false };
const whole = folderSource(EMBEDDED_MODEL);
const LAYER = await layers();

async function layers(): Promise<number> {
  const { size } = (await whole.list()).find(({ name }) => name === "config.json")!;
  const text = new TextDecoder().decode(await whole.read("config.json", 0, size));
  return JSON.parse(text).num_hidden_layers;
}

async function loadParts(options: Partial<ExportOptions> = {}, algorithm = "EAGLE") {
  const { target, exported } = await exportLayer(whole, { layer: LAYER, ...options });
  const speculation = { ...EAGLE, algorithm } as typeof EAGLE;
  return Engine.load(target, { ...OPTIONS, speculation, draftModel: exported });
}

async function answer(loading: Promise<Engine>) {
  const engine = await loading;
  const tokens: number[] = [];
  let figures: unknown;
  const messages = [{ role: "user" as const, content: "Count to ten." }];
  const sampling = { temperature: 0, maxNewTokens: 24, ignoreEos: true };
  for await (const chunk of engine.generate({ messages, sampling })) {
    tokens.push(...chunk.tokens);
    figures = chunk.speculation ?? figures;
  }
  await engine.close();
  return { tokens, figures };
}

test.each([0, LAYER])(
  "named as layer %i, it drafts what the checkpoint's own does",
  async (number) => {
    const own = await answer(Engine.load(whole, { ...OPTIONS, speculation: EAGLE }));
    expect(own.figures).toMatchObject({ proposedDrafts: expect.any(Number) });
    expect(await answer(loadParts({ number }))).toEqual(own);
  },
);

const HEAD_NAMES: Readonly<Record<string, string>> = {
  eh_proj: "fc",
  enorm: "enorm",
  hnorm: "hnorm",
  "shared_head.norm": "norm",
};

/** As a head of another server has them, which has the token table and the output head too. */
function asHead(tensors: readonly RawTensor[]): readonly RawTensor[] {
  return tensors.map((tensor) => {
    const name = tensor.name.replace(/^model\.layers\.0\./, "");
    if (name === "embed_tokens.weight") return { ...tensor, name };
    if (name === "shared_head.head.weight") return { ...tensor, name: "lm_head.weight" };
    const part = Object.keys(HEAD_NAMES).find((one) => name.startsWith(`${one}.`));
    const renamed = part && HEAD_NAMES[part] + name.slice(part.length);
    return { ...tensor, name: renamed ?? `layers.0.${name}` };
  });
}

test.each<[string, Partial<ExportOptions>]>([
  ["DeepSeekMTPModel", { number: LAYER }],
  ["EagleDeepSeekMTPModel", { edit: asHead }],
])("it drafts the same as a %s of another server", async (architecture, options) => {
  const own = await answer(Engine.load(whole, { ...OPTIONS, speculation: EAGLE }));
  expect(await answer(loadParts({ architecture, ...options }))).toEqual(own);
});

test("it takes the place of the checkpoint's own", async () => {
  const { exported } = await exportLayer(whole, { layer: LAYER });
  const own = await answer(Engine.load(whole, { ...OPTIONS, speculation: EAGLE }));
  const useless = await exportLayer(whole, {
    layer: LAYER,
    edit: (tensors) => tensors.map((one) => ({ ...one, bytes: reversed(one.bytes) })),
  });
  const load = (draftModel: typeof exported) =>
    answer(Engine.load(whole, { ...OPTIONS, speculation: EAGLE, draftModel }));
  expect(await load(exported)).toEqual(own);
  const other = await load(useless.exported);
  expect(other.tokens).toEqual(own.tokens);
  expect(other.figures).not.toEqual(own.figures);
});

const reversed = (bytes: Uint8Array) => {
  const pairs = new Uint16Array(bytes.slice().buffer, 0, bytes.length >> 1).reverse();
  const turned = bytes.slice();
  turned.set(new Uint8Array(pairs.buffer, 0, pairs.byteLength));
  return turned;
};

describe("what is no layer of this checkpoint is refused", () => {
  const surplus = { name: "model.surplus", dtype: "F32", shape: [1], bytes: new Uint8Array(4) };
  test.each<[string, Partial<ExportOptions>, string]>([
    ["without its projection", { edit: without("eh_proj") }, "no layer of it has eh_proj.weight"],
    [
      "with two layers",
      {
        ...{ architecture: "EagleDeepSeekMTPModel" },
        edit: (all) => [...asHead(all), { ...surplus, name: "layers.1.mlp.gate.weight" }],
      },
      "layers.1.mlp.gate.weight",
    ],
    ["without a norm", { edit: without("enorm") }, "tensors are missing"],
    ["with another tensor", { edit: (all) => [...all, surplus] }, "has no use for the tensor"],
  ])("%s", async (_, options, message) => {
    const loading = loadParts(options);
    await expect(loading).rejects.toThrow(CheckpointError);
    await expect(loading).rejects.toThrow(message);
  });

  test("as a whole model", async () => {
    const loading = loadParts({}, "STANDALONE");
    await expect(loading).rejects.toThrow(/NextN/);
    await expect(loading).rejects.not.toThrow(InvalidRequestError);
  });
});

function without(part: string): NonNullable<ExportOptions["edit"]> {
  return (tensors) => tensors.filter(({ name }) => !name.includes(`.${part}.`));
}
