/**
 * ONNX models of one kind of node, written as the protocol buffers that they are.
 *
 * Only what these graphs need of the format: nodes with whole or real attributes, constants, and
 * inputs and outputs. Numbers of fields are those of `onnx.proto3`.
 *
 * @module
 */

const ELEMENT_TYPES = { f32: 1, u8: 2, i32: 6, i64: 7, f16: 10 } as const;

export type OnnxType = keyof typeof ELEMENT_TYPES;

export interface OnnxValue {
  readonly name: string;
  readonly type: OnnxType;
  /** Sizes; a name where the size is that of the call. */
  readonly shape: readonly (number | string)[];
}

export interface OnnxConstant extends OnnxValue {
  readonly shape: readonly number[];
  /** Row-major elements. */
  readonly data: ArrayBufferView;
}

export interface OnnxNode {
  readonly operator: string;
  /** Empty for ONNX's own operators. */
  readonly domain: "" | "com.microsoft";
  /** Names of values; empty for an input that is left out. */
  readonly inputs: readonly string[];
  readonly outputs: readonly string[];
  /** Whole numbers, but for those of `reals`. */
  readonly attributes?: Readonly<Record<string, number>>;
  readonly reals?: Readonly<Record<string, number>>;
}

export interface OnnxGraph {
  readonly nodes: readonly OnnxNode[];
  readonly constants: readonly OnnxConstant[];
  readonly inputs: readonly OnnxValue[];
  readonly outputs: readonly OnnxValue[];
}

const IR_VERSION = 10;
const OPERATOR_SETS = { "": 21, "com.microsoft": 1 } as const;
const FLOAT_ATTRIBUTE = 1;
const WHOLE_ATTRIBUTE = 2;
/** How a field's value is stored. */
const VARINT = 0;
const BYTES = 2;
const FIXED_32 = 5;

export function onnxModel(graph: OnnxGraph): Uint8Array {
  const sets = Object.entries(OPERATOR_SETS).map(([domain, version]) =>
    message(8, text(1, domain), whole(2, version)),
  );
  return Buffer.concat([whole(1, IR_VERSION), message(7, graphMessage(graph)), ...sets]);
}

function graphMessage({ nodes, constants, inputs, outputs }: OnnxGraph): Uint8Array {
  return Buffer.concat([
    ...nodes.map((node) => message(1, nodeMessage(node))),
    text(2, "graph"),
    ...constants.map((constant) => message(5, constantMessage(constant))),
    ...inputs.map((value) => message(11, valueMessage(value))),
    ...outputs.map((value) => message(12, valueMessage(value))),
  ]);
}

function nodeMessage({ operator, domain, inputs, outputs, ...node }: OnnxNode): Uint8Array {
  const attributes = Object.entries(node.attributes ?? {}).map(([name, value]) =>
    message(5, text(1, name), whole(3, value), whole(20, WHOLE_ATTRIBUTE)),
  );
  const reals = Object.entries(node.reals ?? {}).map(([name, value]) =>
    message(5, text(1, name), real(2, value), whole(20, FLOAT_ATTRIBUTE)),
  );
  return Buffer.concat([
    ...inputs.map((name) => text(1, name)),
    ...outputs.map((name) => text(2, name)),
    text(3, outputs[0]!),
    text(4, operator),
    ...attributes,
    ...reals,
    text(7, domain),
  ]);
}

function constantMessage({ name, type, shape, data }: OnnxConstant): Uint8Array {
  return Buffer.concat([
    ...shape.map((size) => whole(1, size)),
    whole(2, ELEMENT_TYPES[type]),
    text(8, name),
    field(9, new Uint8Array(data.buffer, data.byteOffset, data.byteLength)),
  ]);
}

function valueMessage({ name, type, shape }: OnnxValue): Uint8Array {
  const sizes = shape.map((size) =>
    message(1, typeof size === "number" ? whole(1, size) : text(2, size)),
  );
  const tensor = message(1, whole(1, ELEMENT_TYPES[type]), message(2, ...sizes));
  return Buffer.concat([text(1, name), message(2, tensor)]);
}

function message(number: number, ...parts: readonly Uint8Array[]): Uint8Array {
  return field(number, Buffer.concat(parts));
}

function text(number: number, value: string): Uint8Array {
  return field(number, Buffer.from(value));
}

function field(number: number, bytes: Uint8Array): Uint8Array {
  return Buffer.concat([varint(number * 8 + BYTES), varint(bytes.length), bytes]);
}

function whole(number: number, value: number): Uint8Array {
  return Buffer.concat([varint(number * 8 + VARINT), varint(value)]);
}

function real(number: number, value: number): Uint8Array {
  const bytes = Buffer.alloc(4);
  bytes.writeFloatLE(value);
  return Buffer.concat([varint(number * 8 + FIXED_32), bytes]);
}

/** Seven bits a byte, the lowest first; the high bit says that more follow. */
function varint(value: number): Uint8Array {
  const bytes: number[] = [];
  let rest = value;
  for (; rest >= 128; rest = Math.floor(rest / 128)) bytes.push((rest % 128) + 128);
  return Uint8Array.from([...bytes, rest]);
}
