/** Kernels as the package carries them: what is short, and that it is valid. */
import { beforeAll, expect, test } from "vitest";
import type { KernelCheck } from "../kernels/check.ts";
import { shortenKernels, unlisted } from "../packaging/wgsl_text.ts";
import { Recorder } from "../src/gpu/recorder.ts";
import { destroyTensors, uploadArrays } from "./support/devices/kernel_outcome.ts";
import { openNullDevice } from "./support/devices/null_device.ts";
import { loadShortKernels } from "./support/devices/short_kernels.ts";
import { seeded } from "./support/seeded.ts";

const kernel = `// A kernel.
const SIZE = 8u;
const LANES = 4u;
alias Element = f32;

struct Params {
  rows: u32, // how many
  first: u32,
}

@group(0) @binding(0) var<storage, read> row: array<Element>;
@group(0) @binding(1) var<uniform> params: Params;

@compute @workgroup_size(LANES)
fn main(@builtin(workgroup_id) group: vec3u) {
  let first = params.first + group.x;
  sums[0] = sum_of(first, Keys(0x0fu, first, vec2f(0.0))) - -1.0 * 0.05;
}
`;

const shared = `const ROUNDS = LANES / 2u;
var<workgroup> sums: array<f32, ROUNDS>;

/// Its members: one that \`Params\` has too, one that a vector might have.
struct Keys {
  count: u32,
  first: u32,
  xy: vec2f,
}

fn sum_of(value: u32, keys: Keys) -> f32 {
  var sum = keys.xy.x;
  for (var i = 0u; i < SIZE; i++) {
    let round = round(row[value * keys.count + i]);
    sum += round * f32(keys.first);
  }
  return sum;
}
`;

test("shortenKernels() keeps a line for each declaration, and names that are looked up", () => {
  const programs = ["specialise({ LANES: 8, Element: `f16` });", "const SIZE = 8; // ROUNDS"];
  expect(shortenKernels([kernel, shared], programs)).toEqual([
    `const C=8u;
const LANES=4u;
alias Element=f32;
struct Params{rows:u32,first:u32,}
var<storage,read>row:array<Element>;
var<uniform>D:Params;
@compute@workgroup_size(LANES)
fn main(@builtin(workgroup_id)b:vec3u){let a=D.first+b.x;F[0]=E(a,A(0xfu,a,vec2f(0.)))- -1.*.05;}
`,
    `const B=LANES/2u;
var<workgroup>F:array<f32,B>;
struct A{c:u32,first:u32,xy:vec2f,}
fn E(d:u32,b:A)->f32{var c=b.xy.x;for(var a=0u;a<C;a++){let round=round(row[d*b.c+a]);c+=round*f32(b.first);}return c;}
`,
  ]);
  expect(() => shortenKernels(["/* a block */"], [])).toThrow("block comment");
});

test("short names are the same in all kernels, and none that anything else has", () => {
  const texts = [
    "const A = 1u;\nfn spread(count: u32) -> u32 { return count; }\n",
    "@group(0) @binding(0) var<storage, read> a: array<u32>;\n",
    "fn twice(count: u32, spread: u32) -> u32 {\n  return count + spread(spread) + A;\n}\n",
  ];
  const [first, , third] = shortenKernels(texts, ["({ A: 1 })"]);
  expect(first).toBe("const A=1u;\nfn B(b:u32)->u32{return b;}\n");
  expect(third).toBe("fn C(b:u32,B:u32)->u32{return b+B(B)+A;}\n");
});

test("unlisted() takes the names of bindings and params out of wrappers, and nothing else", () => {
  const wrapper = `const SHARED_PARAMS = ["rows", "columns"] as const;
const kernel = new Kernel({ name: "a", buffers: ["x", "out"], params: [...SHARED_PARAMS, "eps"] });
const tokens = ["x"];
const buffers = [MOST];
`;
  expect(unlisted(wrapper)).toBe(`const SHARED_PARAMS = [] as const;
const kernel = new Kernel({ name: "a", buffers: [], params: [] });
const tokens = ["x"];
const buffers = [MOST];
`);
});

const wrappers = import.meta.glob<string>(["../kernels/**/*.ts", "!../kernels/**/*.check.ts"], {
  eager: true,
  query: "?raw",
  import: "default",
});

test("every wrapper lists names, which its file is compared with", () => {
  const texts = Object.values(wrappers);
  expect(texts.filter((text) => unlisted(text) !== text).length).toBeGreaterThan(40);
  for (const text of texts) expect(text).not.toMatch(/(buffers|params): \[\]/);
});

let checks: readonly KernelCheck<object>[];

beforeAll(async () => {
  checks = await loadShortKernels();
});

test("every kernel compiles when it is shortened", async () => {
  const device = await openNullDevice();
  expect(checks.length).toBeGreaterThan(50);
  const most = device.limits.maxStorageBuffersPerShaderStage;
  for (const check of checks.filter(({ storageBuffers = 0 }) => storageBuffers <= most)) {
    const [shape] = check.cases as readonly [object];
    const inputs = check.inputs(shape, seeded(1));
    const tensors = uploadArrays(device, { inputs, want: check.reference(shape, inputs) });
    const rewrite = (_: string, code: string) => {
      expect(code).not.toMatch(/\/\/|params/);
      return code;
    };
    const recorder = new Recorder(device, { rewrite });
    for (const tuning of check.tunings) check.bind(recorder, shape, tensors, tuning);
    expect(recorder.pipelines.size, check.name).toBeGreaterThan(0);
    const failure = await recorder.pipelines.ready().catch((error: Error) => error);
    // The text is compiled by then; a GPU's workgroups have twice the memory of this device's.
    const isTooLarge = `${(failure as Error | undefined)?.cause}`.includes("workgroup storage");
    if (!isTooLarge) expect(failure, check.name).toBeUndefined();
    recorder.destroy();
    destroyTensors(tensors);
  }
  device.destroy();
});
