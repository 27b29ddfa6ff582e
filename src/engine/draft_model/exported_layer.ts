/**
 * A layer of a checkpoint that predicts further tokens, exported into a folder of its own: it drafts
 * as if it lay in the checkpoint.
 *
 * | published for | `architectures` end in | its tensors are named |
 * |---|---|---|
 * | SGLang | `NextN` | as the checkpoint's, `model.layers.N.` of any N |
 * | vLLM | `MTPModel` | the same |
 * | vLLM, as an EAGLE head | `EagleDeepSeekMTPModel` | `fc`, `enorm`, `hnorm`, `norm`, and `layers.0.` |
 *
 * @module
 */
import { Checkpoint } from "../../checkpoint/checkpoint.ts";
import { isJsonObject, readJson } from "../../checkpoint/json_file.ts";
import type { TensorEntry, WeightSource } from "../../checkpoint/source.ts";
import { CheckpointError } from "../../errors.ts";
import { takesMtpLayer } from "../../speculation/draft_source.ts";
import type { EngineOptions } from "../engine_options.ts";

const CONFIG = "config.json";
/** The layer is the one with this matrix, whatever the number that the export gave it. */
const PROJECTION = /^model\.layers\.(\d+)\.eh_proj\.weight$/;
const KINDS = /(NextN|MTPModel)$/;
/** What a head is projected by, which has its one layer apart. */
const HEAD = "fc.weight";
/** Its tensors' names in a layer's place; those of its layer follow `layers.0.`. */
const OF_A_HEAD: Readonly<Record<string, string>> = {
  fc: "eh_proj",
  enorm: "enorm",
  hnorm: "hnorm",
  norm: "shared_head.norm",
  "layers.0": "",
};
/** Every layer drafts with its target's. */
const OF_THE_TARGET: readonly string[] = [
  ...["model.embed_tokens.weight", "embed_tokens.weight", "lm_head.weight"],
];

type DraftChoice = Pick<EngineOptions, "draftModel" | "speculation">;

/**
 * The checkpoint with the layer that `draftModel` is, where it is one, and the options without it;
 * else both as they are.
 *
 * @throws {CheckpointError} naming what is wrong with the exported layer.
 */
export async function withExportedLayer<O extends DraftChoice>(
  source: WeightSource,
  options: O,
): Promise<{ readonly source: WeightSource; readonly options: O }> {
  const { draftModel, speculation } = options;
  const takesLayer = speculation?.algorithm && takesMtpLayer(speculation.algorithm);
  if (draftModel === undefined || !takesLayer || !(await isExported(draftModel))) {
    return { source, options };
  }
  const { draftModelPath: _path, draftModelRevision: _revision, ...others } = speculation;
  return {
    source: await joined(source, draftModel),
    options: { ...options, draftModel: undefined, speculation: others },
  };
}

async function isExported(draft: WeightSource): Promise<boolean> {
  const config = await readJson(draft, CONFIG);
  const names = isJsonObject(config) ? config.architectures : undefined;
  return Array.isArray(names) && typeof names[0] === "string" && KINDS.test(names[0]);
}

async function joined(target: WeightSource, draft: WeightSource): Promise<WeightSource> {
  const config = await readJson(target, CONFIG);
  const layers = isJsonObject(config) ? config.num_hidden_layers : undefined;
  if (!isJsonObject(config) || !Number.isSafeInteger(layers)) {
    throw new CheckpointError(CONFIG, "it does not say how many layers there are");
  }
  const text = JSON.stringify({ ...config, num_nextn_predict_layers: 1 });
  const bytes = new TextEncoder().encode(text);
  const prefix = `${draft.name}/`;
  return {
    name: target.name,
    async list() {
      const own = (await target.list()).filter(({ name }) => name !== CONFIG);
      return [...own, { name: CONFIG, size: bytes.length }];
    },
    async read(file, offset, length) {
      if (file === CONFIG) return bytes.slice(offset, offset + length);
      return file.startsWith(prefix)
        ? draft.read(file.slice(prefix.length), offset, length)
        : target.read(file, offset, length);
    },
    async tensors() {
      const { tensors } = await Checkpoint.open(target);
      const place = `model.layers.${layers}.`;
      const own = [...tensors].filter(([name]) => !name.startsWith(place));
      return new Map([...own, ...(await layerOf(draft, place, prefix))]);
    },
    async close() {
      await target.close?.();
      await draft.close?.();
    },
  };
}

/** Its tensors by the names that they have in the target. */
async function layerOf(
  draft: WeightSource,
  place: string,
  prefix: string,
): Promise<readonly (readonly [string, TensorEntry])[]> {
  const { tensors } = await Checkpoint.open(draft);
  const own = tensors.has(HEAD) ? headName : nameBehind(layerOfExport(tensors, draft));
  return [...tensors]
    .filter(([name]) => !OF_THE_TARGET.includes(name))
    .map(([name, tensor]) => {
      const inLayer = own(name);
      if (inLayer === undefined) {
        const problem = "an exported layer has no use for the tensor";
        throw new CheckpointError(`draft model ${draft.name}`, problem, name);
      }
      return [place + inLayer, { ...tensor, file: prefix + tensor.file }] as const;
    });
}

/** The name of a head's tensor in a layer. */
function headName(name: string): string | undefined {
  const part = Object.keys(OF_A_HEAD).find((one) => name.startsWith(`${one}.`));
  if (part === undefined) return undefined;
  const inLayer = OF_A_HEAD[part]!;
  return inLayer === "" ? name.slice(part.length + 1) : inLayer + name.slice(part.length);
}

const nameBehind = (start: string) => (name: string) =>
  name.startsWith(start) ? name.slice(start.length) : undefined;

/** What the names of its tensors begin with. */
function layerOfExport(tensors: ReadonlyMap<string, TensorEntry>, draft: WeightSource): string {
  const number = [...tensors.keys()].flatMap((name) => PROJECTION.exec(name)?.[1] ?? [])[0];
  if (number === undefined) {
    throw new CheckpointError(`draft model ${draft.name}`, "no layer of it has eh_proj.weight");
  }
  return `model.layers.${number}.`;
}
