/**
 * The vision towers in plain loops and f64, to compare the engine with. It shares no code with the
 * models it judges, reads config.json itself, and has patches row by row whatever a tower's order is.
 *
 * @module
 */
import { readJson } from "../../../src/checkpoint/json_file.ts";
import type { WeightSource } from "../../../src/checkpoint/source.ts";
import type { Pixels } from "../../../src/images/pixels.ts";
import { addTo, dot, type Row, rowOf } from "./reference_math.ts";
import { type ReferenceTensor, referenceWeights } from "./reference_weights.ts";

type Config = Readonly<Record<string, unknown>>;
type Numbers = Readonly<Record<string, number | undefined>>;

/** `(value / 255 - mean) / deviation` of each channel. */
export interface ReferenceScale {
  readonly mean: readonly number[];
  readonly deviation: readonly number[];
}

interface Layer {
  readonly heads: number;
  readonly norm: (name: string, row: Row) => Row;
  /** The patches that each patch sees. */
  readonly sees: (patch: number) => readonly number[];
  /** Turns a head's part of a patch. */
  readonly turn?: (part: Row, patch: number) => Row;
}

/** Patches of a picture: how many of a row there are, and each by channel, row and column. */
interface Patches {
  readonly columns: number;
  readonly rows: readonly Row[];
}

export class ReferenceVision {
  readonly #config: Config;
  readonly #weights: ReadonlyMap<string, ReferenceTensor>;

  private constructor(config: Config, weights: ReadonlyMap<string, ReferenceTensor>) {
    this.#config = config;
    this.#weights = weights;
  }

  static async open(source: WeightSource): Promise<ReferenceVision> {
    const config = (await readJson(source, "config.json")) as Config;
    return new ReferenceVision(config, await referenceWeights(source));
  }

  /** Rows of one tile, in the order in which they stand in a prompt. */
  rows(tile: Pixels, scale: ReferenceScale): Row[] {
    const [architecture] = this.#config.architectures as readonly string[];
    switch (architecture) {
      case "LlavaForConditionalGeneration":
        return this.#llava(tile, scale);
      case "Idefics3ForConditionalGeneration":
        return this.#idefics3(tile, scale);
      case "Qwen2_5_VLForConditionalGeneration":
        return this.#qwen(tile, scale);
      default:
        return this.#deepseek(tile, scale);
    }
  }

  get #vision(): Numbers {
    return this.#config.vision_config as Numbers;
  }

  #llava(tile: Pixels, scale: ReferenceScale): Row[] {
    const { patch_size = 32, num_hidden_layers: count = 12, layer_norm_eps = 1e-5 } = this.#vision;
    const tower = "vision_tower.vision_model";
    const embedded = this.#embed(
      patchesOf(tile, scale, patch_size),
      `${tower}.embeddings.patch_embedding`,
    );
    const first = rowOf(this.#tensor(`${tower}.embeddings.class_embedding`), 0);
    const table = this.#tensor(`${tower}.embeddings.position_embedding.weight`);
    const norm = (name: string, row: Row) => this.#layerNorm(name, row, layer_norm_eps);
    const hidden = [first, ...embedded].map((row, i) =>
      norm(`${tower}.pre_layrnorm`, sumOf(row, rowOf(table, i))),
    );
    const { vision_feature_layer: asked = -2 } = this.#config as Numbers;
    const layers = asked < 0 ? count + 1 + asked : asked;
    const all = everyPatch(hidden.length);
    const activation = this.#vision.hidden_act as unknown;
    for (let i = 0; i < layers; i++) {
      this.#clipLayer(hidden, `${tower}.encoder.layers.${i}`, {
        heads: this.#vision.num_attention_heads ?? 12,
        norm,
        sees: () => all,
        activate: activation === "gelu" ? geluErf : geluQuick,
      });
    }
    const keepsClass = this.#config.vision_feature_select_strategy === "full";
    return hidden
      .slice(keepsClass ? 0 : 1)
      .map((row) => this.#linear("multi_modal_projector.linear_1", row).map(geluErf))
      .map((row) => this.#linear("multi_modal_projector.linear_2", row));
  }

  #idefics3(tile: Pixels, scale: ReferenceScale): Row[] {
    const { patch_size = 32, layer_norm_eps = 1e-6, num_hidden_layers: count = 12 } = this.#vision;
    const tower = "model.vision_model";
    const patches = patchesOf(tile, scale, patch_size);
    const table = this.#tensor(`${tower}.embeddings.position_embedding.weight`);
    const hidden = this.#embed(patches, `${tower}.embeddings.patch_embedding`).map((row, i) =>
      sumOf(row, rowOf(table, i)),
    );
    const norm = (name: string, row: Row) => this.#layerNorm(name, row, layer_norm_eps);
    const all = everyPatch(hidden.length);
    for (let i = 0; i < count; i++) {
      this.#clipLayer(hidden, `${tower}.encoder.layers.${i}`, {
        heads: this.#vision.num_attention_heads ?? 12,
        norm,
        sees: () => all,
        activate: geluTanh,
      });
    }
    const last = hidden.map((row) => norm(`${tower}.post_layernorm`, row));
    const { scale_factor: side = 2 } = this.#config as Numbers;
    return squares(patches.columns, side, (at) => {
      const parts = at.map((patch) => last[patch!]!);
      return this.#linear("model.connector.modality_projection.proj", joined(parts));
    });
  }

  #deepseek(tile: Pixels, scale: ReferenceScale): Row[] {
    const { patch_size = 14, layers: count = 27, heads = 16 } = this.#vision;
    const patches = patchesOf(tile, scale, patch_size);
    const table = this.#tensor("vision.pos_embed");
    const hidden = this.#embed(patches, "vision.patch_embed.proj").map((row, i) =>
      sumOf(row, rowOf(table, i)),
    );
    const norm = (name: string, row: Row) => this.#layerNorm(name, row, 1e-6);
    const all = everyPatch(hidden.length);
    for (let i = 0; i < count; i++) {
      const block = `vision.blocks.${i}`;
      this.#attend(hidden, { heads, norm, sees: () => all }, block);
      for (const row of hidden) {
        const inner = this.#linear(`${block}.mlp.fc1`, norm(`${block}.norm2`, row)).map(geluTanh);
        addTo(row, this.#linear(`${block}.mlp.fc2`, inner), 1);
      }
    }
    const last = hidden.map((row) => norm("vision.norm", row));
    const { downsample_ratio: side = 2 } = this.#config.projector_config as Numbers;
    const rows = squares(patches.columns, side, (at) => {
      const parts = at.map((patch) => (patch === undefined ? undefined : last[patch]!));
      // Each channel of all patches, one channel after the other.
      const width = last[0]!.length;
      const inner = Float64Array.from(
        { length: width * parts.length },
        (_, k) => parts[k % parts.length]?.[Math.floor(k / parts.length)] ?? 0,
      );
      const raised = this.#linear("projector.layers.0", inner).map(geluErf);
      return this.#linear("projector.layers.2", raised);
    });
    const marks = ["image_newline", "view_seperator"].map((name) => rowOf(this.#tensor(name), 0));
    return [...rows, ...marks];
  }

  #qwen(tile: Pixels, scale: ReferenceScale): Row[] {
    const vision = this.#vision;
    const { patch_size: side = 14, spatial_merge_size: merge = 2, window_size = 112 } = vision;
    const { depth = 32, num_heads: heads = 16, temporal_patch_size: frames = 2 } = vision;
    const { rows: still, columns } = patchesOf(tile, scale, side);
    // Channel by channel each of the frames, which are the same.
    const area = side ** 2;
    const film = still.map((row) =>
      joined([0, 1, 2].flatMap((c) => Array(frames).fill(row.subarray(c * area, (c + 1) * area)))),
    );
    const hidden = this.#embed({ rows: film, columns }, "visual.patch_embed.proj");
    const norm = (name: string, row: Row) => this.#rmsNorm(name, row, 1e-6);
    const window = Math.floor(window_size / merge / side) * merge;
    const windowOf = (patch: number) =>
      `${Math.floor(Math.floor(patch / columns) / window)} ${Math.floor((patch % columns) / window)}`;
    const members = new Map<string, number[]>();
    for (let patch = 0; patch < hidden.length; patch++) {
      const own = windowOf(patch);
      members.set(own, [...(members.get(own) ?? []), patch]);
    }
    const all = everyPatch(hidden.length);
    const whole = ((this.#config.vision_config as Config).fullatt_block_indexes ?? [
      7, 15, 23, 31,
    ]) as readonly number[];
    for (let i = 0; i < depth; i++) {
      const block = `visual.blocks.${i}`;
      const sees = (patch: number) => (whole.includes(i) ? all : members.get(windowOf(patch))!);
      const turn = (part: Row, patch: number) =>
        turned(part, Math.floor(patch / columns), patch % columns);
      this.#attend(hidden, { heads, norm, sees, turn }, block);
      for (const row of hidden) {
        const input = norm(`${block}.norm2`, row);
        const gate = this.#linear(`${block}.mlp.gate_proj`, input).map(
          (x) => x / (1 + Math.exp(-x)),
        );
        const up = this.#linear(`${block}.mlp.up_proj`, input);
        addTo(
          row,
          this.#linear(
            `${block}.mlp.down_proj`,
            gate.map((x, k) => x * up[k]!),
          ),
          1,
        );
      }
    }
    const last = hidden.map((row) => norm("visual.merger.ln_q", row));
    return squares(
      columns,
      merge,
      (at) => {
        const inner = this.#linear("visual.merger.mlp.0", joined(at.map((patch) => last[patch!]!)));
        return this.#linear("visual.merger.mlp.2", inner.map(geluErf));
      },
      hidden.length / columns,
    );
  }

  #clipLayer(
    hidden: Row[],
    name: string,
    layer: Layer & { readonly activate: (x: number) => number },
  ): void {
    this.#attend(hidden, layer, name, {
      norm: "layer_norm1",
      parts: ["q", "k", "v"].map((part) => `self_attn.${part}_proj`),
      out: "self_attn.out_proj",
    });
    for (const row of hidden) {
      const input = layer.norm(`${name}.layer_norm2`, row);
      const inner = this.#linear(`${name}.mlp.fc1`, input).map(layer.activate);
      addTo(row, this.#linear(`${name}.mlp.fc2`, inner), 1);
    }
  }

  /** Adds what each patch makes of those that it sees. */
  #attend(
    hidden: Row[],
    { heads, norm, sees, turn = (part) => part }: Layer,
    name: string,
    names: { readonly norm: string; readonly parts: readonly string[]; readonly out: string } = {
      norm: "norm1",
      parts: ["attn.qkv"],
      out: "attn.proj",
    },
  ): void {
    const width = hidden[0]!.length;
    const size = width / heads;
    const projected = hidden.map((row) => {
      const input = norm(`${name}.${names.norm}`, row);
      return joined(names.parts.map((part) => this.#linear(`${name}.${part}`, input)));
    });
    const head = (patch: number, part: number, h: number) =>
      projected[patch]!.subarray(part * width + h * size, part * width + (h + 1) * size);
    const out = hidden.map(() => new Float64Array(width));
    for (let h = 0; h < heads; h++) {
      const keys = projected.map((_, patch) => turn(head(patch, 1, h), patch));
      hidden.forEach((_, patch) => {
        const query = turn(head(patch, 0, h), patch);
        const seen = sees(patch);
        const scores = seen.map((other) => dot(query, keys[other]!) / Math.sqrt(size));
        const most = scores.reduce((a, b) => Math.max(a, b), Number.NEGATIVE_INFINITY);
        const weights = scores.map((score) => Math.exp(score - most));
        const sum = weights.reduce((a, b) => a + b, 0);
        const into = out[patch]!.subarray(h * size, (h + 1) * size);
        for (const [i, other] of seen.entries()) {
          addTo(into, head(other, 2, h), weights[i]! / sum);
        }
      });
    }
    for (const [patch, row] of hidden.entries()) {
      addTo(row, this.#linear(`${name}.${names.out}`, out[patch]!), 1);
    }
  }

  #embed({ rows }: Patches, name: string): Row[] {
    const { values } = this.#tensor(`${name}.weight`);
    const columns = rows[0]!.length;
    const count = values.length / columns;
    const bias = this.#weights.get(`${name}.bias`)?.values;
    return rows.map((row) =>
      Float64Array.from(
        { length: count },
        (_, i) => dot(row, values.subarray(i * columns, (i + 1) * columns)) + (bias?.[i] ?? 0),
      ),
    );
  }

  #linear(name: string, input: Row): Row {
    const weight = this.#tensor(`${name}.weight`);
    const bias = this.#weights.get(`${name}.bias`)?.values;
    return Float64Array.from(
      { length: weight.rows },
      (_, i) => dot(input, rowOf(weight, i)) + (bias?.[i] ?? 0),
    );
  }

  #layerNorm(name: string, row: Row, eps: number): Row {
    const mean = row.reduce((a, b) => a + b, 0) / row.length;
    const variance = row.reduce((a, b) => a + (b - mean) ** 2, 0) / row.length;
    const [weight, bias] = [this.#tensor(`${name}.weight`), this.#tensor(`${name}.bias`)];
    const factor = 1 / Math.sqrt(variance + eps);
    return row.map((x, i) => (x - mean) * factor * weight.values[i]! + bias.values[i]!);
  }

  #rmsNorm(name: string, row: Row, eps: number): Row {
    const factor = 1 / Math.sqrt(row.reduce((a, b) => a + b * b, 0) / row.length + eps);
    const { values } = this.#tensor(`${name}.weight`);
    return row.map((x, i) => x * factor * values[i]!);
  }

  #tensor(name: string): ReferenceTensor {
    const tensor = this.#weights.get(name);
    if (tensor === undefined) throw new Error(`The checkpoint has no ${name}`);
    return tensor;
  }
}

const everyPatch = (count: number) => Array.from({ length: count }, (_, i) => i);
const sumOf = (a: Row, b: Row) => a.map((x, i) => x + b[i]!);

function joined(parts: readonly Row[]): Row {
  const out = new Float64Array(parts.reduce((sum, part) => sum + part.length, 0));
  let at = 0;
  for (const part of parts) {
    out.set(part, at);
    at += part.length;
  }
  return out;
}

/** Of squares of `side` patches, row by row: what becomes of each; a patch beyond the edge is absent. */
function squares(
  columns: number,
  side: number,
  work: (patches: readonly (number | undefined)[]) => Row,
  rows = columns,
): Row[] {
  const out: Row[] = [];
  for (let top = 0; top < rows; top += side) {
    for (let left = 0; left < columns; left += side) {
      const patches = Array.from({ length: side ** 2 }, (_, i) => {
        const [y, x] = [top + Math.floor(i / side), left + (i % side)];
        return y < rows && x < columns ? y * columns + x : undefined;
      });
      out.push(work(patches));
    }
  }
  return out;
}

function patchesOf({ width, height, rgb }: Pixels, scale: ReferenceScale, side: number): Patches {
  const [columns, count] = [Math.floor(width / side), Math.floor(height / side)];
  const value = (c: number, y: number, x: number) =>
    (rgb[(y * width + x) * 3 + c]! / 255 - scale.mean[c]!) / scale.deviation[c]!;
  const rows = Array.from({ length: columns * count }, (_, patch) => {
    const [top, left] = [Math.floor(patch / columns) * side, (patch % columns) * side];
    return Float64Array.from({ length: 3 * side ** 2 }, (__, i) => {
      const [c, y, x] = [Math.floor(i / side ** 2), Math.floor(i / side) % side, i % side];
      return value(c, top + y, left + x);
    });
  });
  return { rows, columns };
}

/** The first half of a head's pairs by the row, the second by the column. */
function turned(part: Row, row: number, column: number): Row {
  const half = part.length / 2;
  return part.map((x, d) => {
    const pair = d % half;
    const place = pair < half / 2 ? row : column;
    const angle = place * 10000 ** (-(pair % (half / 2)) / (half / 2));
    const other = d < half ? -part[d + half]! : part[d - half]!;
    return x * Math.cos(angle) + other * Math.sin(angle);
  });
}

const geluTanh = (x: number) =>
  0.5 * x * (1 + Math.tanh(Math.sqrt(2 / Math.PI) * (x + 0.044715 * x ** 3)));
const geluQuick = (x: number) => x / (1 + Math.exp(-1.702 * x));
const geluErf = (x: number) => 0.5 * x * (1 + erf(x / Math.SQRT2));

/** By a series whose terms are all of one sign. */
function erf(x: number): number {
  if (Math.abs(x) > 6) return Math.sign(x);
  let term = x * Math.exp(-x * x);
  let sum = term;
  for (let n = 0; Math.abs(term) > 1e-17 * Math.abs(sum); n++) {
    term *= (2 * x * x) / (2 * n + 3);
    sum += term;
  }
  return (2 / Math.sqrt(Math.PI)) * sum;
}
