/**
 * EAGLE and EAGLE-3 heads in plain loops and f64, to compare the engine with.
 *
 * @module
 */
import type { WeightSource } from "../../../src/checkpoint/source.ts";
import { ReferenceDeepseek } from "./reference_deepseek.ts";
import { type GqaReferenceOptions, ReferenceGqa } from "./reference_gqa.ts";
import { addTo, type Row } from "./reference_math.ts";
import { referenceWeights } from "./reference_weights.ts";

interface HeadConfig {
  readonly architectures: readonly string[];
  readonly draft_vocab_size?: number | null;
  readonly norm_before_residual?: boolean;
  readonly kv_lora_rank?: number;
  readonly eagle_config?: { readonly eagle_aux_hidden_state_layer_ids: readonly number[] };
}

type GqaConfig = ConstructorParameters<typeof ReferenceGqa>[0];
type LatentConfig = ConstructorParameters<typeof ReferenceDeepseek>[0];
type HeadLayer = Pick<ReferenceGqa, "linear" | "norm" | "attention" | "mlp" | "weights">;

/** A row as attention sees it, and what its result is added to. */
interface HeadRow {
  readonly input: Row;
  readonly residual: Row;
}

const joined = (...rows: readonly Row[]) => Float64Array.from(rows.flatMap((row) => [...row]));

export interface ReferenceDraft {
  readonly logits: Row;
  readonly token: number;
}

/** The best token behind tokens, then behind that one, and so on. */
export function draftsInTurn(
  reference: Pick<ReferenceEagle, "behind" | "targetId">,
  tokens: readonly number[],
  count: number,
): ReferenceDraft[] {
  const path: number[] = [];
  return Array.from({ length: count }, () => {
    const logits = reference.behind(tokens, path);
    const token = reference.targetId(logits.indexOf(Math.max(...logits)));
    path.push(token);
    return { logits, token };
  });
}

/** A model of any attention that a head is for. */
export interface ReferenceTarget {
  embedding(token: number): Row;
  head(row: Row): Row;
  states(tokens: readonly number[]): { readonly layers: Row[][]; readonly final: Row[] };
}

export class ReferenceEagle {
  readonly #target: ReferenceTarget;
  readonly #layer: HeadLayer;
  readonly #config: HeadConfig;
  readonly #isThird: boolean;

  constructor(target: ReferenceTarget, layer: HeadLayer, config: HeadConfig) {
    this.#target = target;
    this.#layer = layer;
    this.#config = config;
    this.#isThird = config.architectures[0]!.includes("Eagle3");
  }

  static async open(
    target: ReferenceTarget,
    source: WeightSource,
    options: GqaReferenceOptions,
  ): Promise<ReferenceEagle> {
    const file = (await source.list()).find(({ name }) => name === "config.json")!;
    const text = new TextDecoder().decode(await source.read(file.name, 0, file.size));
    const config = JSON.parse(text) as HeadConfig & GqaConfig & LatentConfig;
    const all = [...(await referenceWeights(source))];
    const weights = new Map(
      all.map(([name, tensor]) => {
        return [name.replace(/^(midlayer|layers\.0)\./, "model.layers.0."), tensor] as const;
      }),
    );
    const layer =
      config.kv_lora_rank === undefined
        ? new ReferenceGqa(config, weights, options)
        : new ReferenceDeepseek(config, weights);
    return new ReferenceEagle(target, layer, config);
  }

  /**
   * Drafts behind tokens, of which the last is the newest, that the target has not computed.
   *
   * @returns The logits of each, over the tokens that the head knows, and its token.
   */
  drafts(tokens: readonly number[], count: number): ReferenceDraft[] {
    return draftsInTurn(this, tokens, count);
  }

  /**
   * Logits behind drafts that follow each other, over the tokens that the head knows.
   *
   * @param tokens As those of `drafts`.
   * @param path Drafts behind them, by their numbers in the target.
   */
  behind(tokens: readonly number[], path: readonly number[]): Row {
    const { layers, final } = this.#target.states(tokens.slice(0, -1));
    const ids = this.#config.eagle_config?.eagle_aux_hidden_state_layer_ids;
    const rows = final.map((hidden, i) => {
      const embedding = this.#target.embedding(tokens[i + 1]!);
      if (!this.#isThird) return this.#row(embedding, hidden);
      const states = ids!.map((layer) => layers[layer + 1]![i]!);
      return this.#row(embedding, this.#layer.linear(joined(...states), "fc"));
    });
    for (const token of path) {
      const out = this.#last(rows);
      rows.push(this.#row(this.#target.embedding(token), out));
    }
    return this.#logits(this.#last(rows));
  }

  #row(embedding: Row, hidden: Row): HeadRow {
    if (!this.#isThird) {
      const input = this.#layer.linear(joined(embedding, hidden), "fc");
      return { input, residual: input };
    }
    const name = "model.layers.0";
    const normed = this.#layer.norm(embedding, `${name}.input_layernorm`);
    const ownNormed = this.#layer.norm(hidden, `${name}.hidden_norm`);
    const input = joined(normed, ownNormed);
    return { input, residual: this.#addsToNormed ? ownNormed : hidden };
  }

  get #addsToNormed(): boolean {
    const { architectures, norm_before_residual: says } = this.#config;
    return says ?? /^Deepseek.*Eagle3$/.test(architectures[0]!);
  }

  #last(rows: readonly HeadRow[]): Row {
    const attended = this.#layer.attention(
      rows.map(({ input }) => input),
      0,
    );
    const out = rows.at(-1)!.residual.slice();
    addTo(out, attended.at(-1)!, 1);
    const name = "model.layers.0";
    const normed = this.#layer.norm(out, `${name}.post_attention_layernorm`);
    addTo(out, this.#layer.mlp(normed, `${name}.mlp`), 1);
    return out;
  }

  get #hasHead(): boolean {
    return this.#isThird && typeof this.#config.draft_vocab_size === "number";
  }

  #logits(out: Row): Row {
    const row = this.#isThird ? this.#layer.norm(out, "norm") : out;
    return this.#hasHead ? this.#layer.linear(row, "lm_head") : this.#target.head(row);
  }

  /** The target's number of a token that the head knows. */
  targetId(id: number): number {
    return id + (this.#layer.weights.get("d2t")?.values[id] ?? 0);
  }
}
