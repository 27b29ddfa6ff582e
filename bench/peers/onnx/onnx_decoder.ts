/**
 * A small decoder with random weights, as an ONNX model with the names that transformers.js goes by.
 *
 * It has grouped-query attention over a growing cache and a feed-forward part in each layer, and no
 * norms or rotations: it says nothing, and starts like one that does.
 *
 * @module
 */
import { seeded } from "../../../test/support/seeded.ts";
import { type OnnxConstant, type OnnxNode, type OnnxValue, onnxModel } from "./onnx_writer.ts";

const SHAPE = { layers: 2, hidden: 256, heads: 8, kvHeads: 4, intermediate: 1024 } as const;
const HEAD_DIM = SHAPE.hidden / SHAPE.heads;
const INT32 = 6;

export interface DecoderFiles {
  readonly config: Uint8Array;
  readonly model: Uint8Array;
}

/** @param endToken The token that ends a text. */
export function onnxDecoder(vocabularySize: number, endToken: number): DecoderFiles {
  const config = {
    model_type: "llama",
    architectures: ["LlamaForCausalLM"],
    vocab_size: vocabularySize,
    hidden_size: SHAPE.hidden,
    num_hidden_layers: SHAPE.layers,
    num_attention_heads: SHAPE.heads,
    num_key_value_heads: SHAPE.kvHeads,
    eos_token_id: endToken,
  };
  return { config: Buffer.from(JSON.stringify(config)), model: decoder(vocabularySize) };
}

function decoder(vocabularySize: number): Uint8Array {
  const { layers, hidden, kvHeads, intermediate } = SHAPE;
  const random = seeded(1);
  const nodes: OnnxNode[] = [];
  const constants: OnnxConstant[] = [];
  const add = (operator: string, inputs: readonly string[], output: string, rest = {}) => {
    nodes.push({ operator, domain: "", inputs, outputs: [output], ...rest });
    return output;
  };
  const matrix = (name: string, rows: number, columns: number) => {
    const scale = 2 / Math.sqrt(rows);
    const data = Float32Array.from({ length: rows * columns }, () => (random() - 0.5) * scale);
    constants.push({ name, type: "f32", shape: [rows, columns], data });
    return name;
  };
  const times = (x: string, name: string, [rows, columns]: readonly [number, number]) =>
    add("MatMul", [x, matrix(`${name}.weight`, rows, columns)], name);

  const one = BigInt64Array.of(1n);
  constants.push({ name: "one", type: "i64", shape: [1], data: one });
  add("ReduceSum", ["attention_mask", "one"], "tokens", { attributes: { keepdims: 0 } });
  add("Sub", ["tokens", "one"], "last");
  add("Cast", ["last"], "seqlens_k", { attributes: { to: INT32 } });
  add("Shape", ["attention_mask"], "mask_shape");
  add("Gather", ["mask_shape", "one"], "total", { attributes: { axis: 0 } });
  add("Cast", ["total"], "total_sequence_length", { attributes: { to: INT32 } });

  let x = add("Gather", [matrix("embedding", vocabularySize, hidden), "input_ids"], "x", {
    attributes: { axis: 0 },
  });
  const cached: OnnxValue[] = [];
  const grown: OnnxValue[] = [];
  for (let layer = 0; layer < layers; layer++) {
    const named = (name: string) => `layer.${layer}.${name}`;
    const width = kvHeads * HEAD_DIM;
    const q = times(x, named("q"), [hidden, hidden]);
    const k = times(x, named("k"), [hidden, width]);
    const v = times(x, named("v"), [hidden, width]);
    for (const part of ["key", "value"]) {
      const shape = (length: string) => ["batch_size", kvHeads, length, HEAD_DIM];
      cached.push({ name: `past_key_values.${layer}.${part}`, type: "f32", shape: shape("past") });
      grown.push({ name: `present.${layer}.${part}`, type: "f32", shape: shape("total") });
    }
    const [past, present] = [cached, grown].map((all) => all.slice(-2).map(({ name }) => name));
    const attended = named("attended");
    nodes.push({
      operator: "GroupQueryAttention",
      domain: "com.microsoft",
      inputs: [q, k, v, ...past!, "seqlens_k", "total_sequence_length"],
      outputs: [attended, ...present!],
      attributes: { num_heads: SHAPE.heads, kv_num_heads: kvHeads },
    });
    const projected = times(attended, named("o"), [hidden, hidden]);
    const between = add("Add", [x, projected], named("between"));
    const up = add("Relu", [times(between, named("up"), [hidden, intermediate])], named("relu"));
    x = add("Add", [between, times(up, named("down"), [intermediate, hidden])], named("out"));
  }
  times(x, "logits", [hidden, vocabularySize]);
  const ids = (name: string, length: string) =>
    ({ name, type: "i64", shape: ["batch_size", length] }) as const;
  return onnxModel({
    nodes,
    constants,
    inputs: [ids("input_ids", "sequence"), ids("attention_mask", "total"), ...cached],
    outputs: [
      { name: "logits", type: "f32", shape: ["batch_size", "sequence", vocabularySize] },
      ...grown,
    ],
  });
}
