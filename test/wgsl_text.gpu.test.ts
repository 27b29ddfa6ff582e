/** Kernels as the package carries them: shortened, and what they were. */
import { expect, test } from "vitest";
import type { KernelCheck } from "../kernels/check.ts";
import { kernelNames, shortenWgsl } from "../packaging/wgsl_text.ts";
import { device, fullTest, smallestCaseOnly } from "./support/gpu.ts";
import { runCase } from "./support/kernel_outcome.ts";

const text = `// A kernel.
const SIZE = 8u;

struct Params {
  rows: u32, // how many
}

/// The sum of a row.
fn sum_of(row: u32, value: vec4f) -> f32 {
  var sum = 0.0;
  for (var i = 0u; i < SIZE; i++) {
    let value_at = x[row * SIZE + i] - -value.row;
    sum += value_at;
  }
  return sum;
}

fn twice(sum_of: u32) -> f32 {
  let twice = sum_of(sum_of, vec4f());
  return twice + a;
}
`;

test("shortenWgsl() keeps a line for each declaration, and takes spaces and names out of it", () => {
  expect(shortenWgsl(text)).toBe(`const SIZE=8u;
struct Params{rows:u32,}
fn sum_of(a:u32,b:vec4f)->f32{var c=0.0;for(var i=0u;i<SIZE;i++){let d=x[a*SIZE+i]- -b.row;c+=d;}return c;}
fn twice(sum_of:u32)->f32{let twice=sum_of(sum_of,vec4f());return twice+a;}
`);
  expect(() => shortenWgsl("/* a block */")).toThrow("block comment");
});

test("kernelNames() finds what no program and no member of a struct is called", () => {
  const shared = `const LANES = 4u;
const ROUNDS = LANES / 2u;
alias Quad = vec4f;
var<workgroup> sums: array<f32, ROUNDS>;
struct Keys {
  first: u32,
}
fn first() -> u32 { return Keys(1u).first; }
`;
  const names = kernelNames([shared, text], ["specialise({ LANES: 8 })", "its Params"]);
  expect([...names.keys()]).toEqual(["Keys", "Quad", "ROUNDS", "SIZE", "sum_of", "sums", "twice"]);
  expect(shortenWgsl(shared, names)).toBe(`const LANES=4u;
const _2=LANES/2u;
alias _1=vec4f;
var<workgroup>_5:array<f32,_2>;
struct _0{first:u32,}
fn first()->u32{return _0(1u).first;}
`);
});

/** Names of all kernels, as the package has them. */
const names = kernelNames(
  Object.values(
    import.meta.glob<string>("../kernels/**/*.wgsl", {
      ...{ eager: true, query: "?raw", import: "default" },
    }),
  ),
  Object.values(
    import.meta.glob<string>(["../kernels/**/*.ts", "../src/**/*.ts", "!**/*.check.ts"], {
      ...{ eager: true, query: "?raw", import: "default" },
    }),
  ),
);

const checks = Object.values(
  import.meta.glob<{ default: KernelCheck<object> }>("../kernels/**/*.check.ts", { eager: true }),
)
  .map(({ default: check }) => check)
  .filter(({ feature }) => feature === undefined || device.features.has(feature));
/** One of each file that kernels share, in the run that has no time for all. */
const some = ["attention/gqa_decode", "linear/linear int4", "moe/route", "sampling/sample"];

test
  .skipIf(smallestCaseOnly && !fullTest)
  .each(checks.filter(({ name }) => fullTest || some.includes(name)))(
  "$name is the same when it is shortened",
  async (check) => {
    const [shape] = check.cases;
    const [tuning] = check.tunings;
    const rewrite = (_: string, code: string) => shortenWgsl(code, names);
    const whole = await runCase(device, check, { shape: shape!, tuning: tuning! });
    const short = await runCase(device, check, { shape: shape!, tuning: tuning!, rewrite });
    expect(short.error, short.where).toBeLessThanOrEqual(check.tolerance);
    expect(short.bits).toEqual(whole.bits);
  },
);
