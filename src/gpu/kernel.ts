/**
 * A kernel: a WGSL file and the parts that its wrapper joins with it, specialised by constants, bound
 * to tensors once and recorded every step.
 *
 * Specialising only replaces the right-hand side of top-level `const` and `alias` declarations: files
 * are WGSL, with a value for each. `npm run kernel` prints what a device is given. Spare spaces do not
 * matter.
 *
 * @module
 */
import { KernelError } from "../errors.ts";
import type { CostOf, LaunchCost, LaunchedKernel, StepArrays } from "./launch_cost.ts";
import type { PipelineEntry } from "./pipeline_cache.ts";
import type { IndirectGrid, RecordedLaunch, UniformBlock } from "./recorded_launch.ts";
import type { Recorder } from "./recorder.ts";
import type { Tensor } from "./tensor.ts";

/** Values for `const` and `alias` declarations; a whole number becomes a `u32`. */
export type Constants = Readonly<Record<string, number | boolean | string>>;

type ScalarType = "u32" | "f32";

/** What a kernel file declares, as read from its text. */
export interface KernelInterface {
  readonly buffers: readonly { readonly name: string; readonly access: "read" | "read_write" }[];
  readonly params: readonly { readonly name: string; readonly type: ScalarType }[];
}

/** The same names as a wrapper writes them, so that TypeScript can check the callers. */
export interface KernelDefinition<B extends string, P extends string> {
  /** Path under `kernels/` without `.wgsl`. */
  readonly name: string;
  /** The kernel's text, with the shared functions it calls in front. */
  readonly source: string;
  readonly buffers: readonly B[];
  readonly params: readonly P[];
}

/** Returns `source` with the named top-level `const` and `alias` values replaced. */
export function specialize(kernel: string, source: string, constants: Constants): string {
  let code = source;
  for (const [name, value] of Object.entries(constants)) {
    const declaration = new RegExp(`^(const|alias) ${name} ?= ?[^;]+;`, "m");
    if (!declaration.test(code)) throw new KernelError(kernel, `no const or alias named ${name}`);
    const text = Number.isInteger(value) ? `${value}u` : `${value}`;
    code = code.replace(declaration, `$1 ${name} = ${text};`);
  }
  return Object.values(constants).includes("f16") ? `enable f16;\n${code}` : code;
}

/** Numbers the bindings that packaging leaves without a group and a number, in their order. */
export function numberBindings(source: string): string {
  let binding = 0;
  return source.replace(
    /^var<(?=storage|uniform)/gm,
    (v) => `@group(0) @binding(${binding++}) ${v}`,
  );
}

/** Reads the bindings and `struct Params` out of a kernel file. */
export function reflect(kernel: string, source: string): KernelInterface {
  const storage = /@binding\((\d+)\) ?var<storage, ?(read|read_write)> ?(\w+)/g;
  const buffers = [...source.matchAll(storage)].map(([, index, access, name], i) => {
    if (Number(index) !== i) throw new KernelError(kernel, `binding ${index} is out of order`);
    return { name: name!, access: access as "read" | "read_write" };
  });
  const struct = /struct Params ?\{([^}]*)\}/.exec(source)?.[1] ?? "";
  const params = [...struct.matchAll(/(\w+): ?(\w+),/g)].map(([, name, type]) => {
    if (type !== "u32" && type !== "f32") {
      throw new KernelError(kernel, `Params.${name} is ${type}, not u32 or f32`);
    }
    return { name: name!, type: type as ScalarType };
  });
  return { buffers, params };
}

export interface BindOptions<P extends string> {
  readonly constants?: Constants;
  /** Values known now; those of a step are set before each record. */
  readonly params?: Readonly<Partial<Record<P, number>>>;
  /** Invocations of a subgroup that the kernel asks for. Default: as for all kernels of the adapter. */
  readonly subgroupSize?: number | undefined;
  /** What a launch has to do, asked for only while launches are timed. */
  readonly cost?: CostOf<P>;
}

export class Kernel<B extends string, P extends string> {
  readonly name: string;
  readonly interface: KernelInterface;
  readonly #source: string;

  /** @throws {KernelError} when the wrapper and the file disagree about a name or an order. */
  constructor({ name, source, buffers, params }: KernelDefinition<B, P>) {
    this.name = name;
    this.#source = numberBindings(source);
    this.interface = reflect(name, this.#source);
    for (const [what, listed] of Object.entries({ buffers, params })) {
      const declared = this.interface[what as "buffers" | "params"].map((entry) => entry.name);
      // What packaging leaves out is empty.
      if (listed.length > 0 && listed.join() !== declared.join()) {
        throw new KernelError(
          name,
          `wrapper lists ${what} [${listed.join(", ")}], file declares [${declared.join(", ")}]`,
        );
      }
    }
  }

  /** Asks for the kernel specialised by `constants` and binds `tensors` to it. */
  bind(
    recorder: Recorder,
    tensors: Readonly<Record<B, Tensor>>,
    { constants = {}, params, subgroupSize, cost }: BindOptions<P> = {},
  ): BoundKernel<P> {
    const specialized = specialize(this.name, this.#source, constants);
    const entry = recorder.pipelines.get({
      kernel: this.name,
      constants,
      subgroupSize,
      code: recorder.rewrite?.(this.name, specialized) ?? specialized,
      buffers: [
        ...this.interface.buffers.map(({ access }) =>
          access === "read" ? ("read-only-storage" as const) : ("storage" as const),
        ),
        "uniform",
      ],
    });
    const uniforms = recorder.reserveUniforms(this.interface.params.length);
    const entries: GPUBindGroupEntry[] = this.interface.buffers.map(({ name }, binding) => {
      const { buffer, offset, size } = tensors[name as B];
      return { binding, resource: { buffer, offset, size } };
    });
    entries.push({ binding: entries.length, resource: uniforms.binding });
    const group = recorder.bindGroup({ label: this.name, layout: entry.layout, entries });
    const bound = new BoundKernel<P>(recorder, {
      name: this.name,
      params: this.interface.params,
      entry,
      group,
      uniforms,
      cost,
    });
    for (const [name, value] of Object.entries(params ?? {})) bound.set(name as P, value as number);
    return bound;
  }
}

interface Binding<P extends string> {
  readonly name: string;
  readonly params: KernelInterface["params"];
  readonly entry: PipelineEntry;
  readonly group: GPUBindGroup;
  readonly uniforms: UniformBlock;
  readonly cost: CostOf<P> | undefined;
}

/** A kernel with its tensors; only the step's uniform values and the grid are left to say. */
export class BoundKernel<P extends string> implements LaunchedKernel {
  readonly name: string;
  readonly #recorder: Recorder;
  readonly #binding: Binding<P>;
  readonly #words = new Map<string, { readonly word: number; readonly type: ScalarType }>();
  #recordedIn = -1;

  constructor(recorder: Recorder, binding: Binding<P>) {
    this.name = binding.name;
    this.#recorder = recorder;
    this.#binding = binding;
    binding.params.forEach(({ name, type }, i) => {
      this.#words.set(name, { word: binding.uniforms.word + i, type });
    });
  }

  /**
   * Sets one field of `Params` for the next record.
   *
   * @throws {KernelError} when this launch was already recorded in the open submit with another
   * value: both would read the last one. Bind it twice instead.
   */
  set(param: P, value: number): void {
    const { word, type } = this.#words.get(param)!;
    const changed =
      type === "f32" ? this.#recorder.setF32(word, value) : this.#recorder.setU32(word, value);
    if (changed && this.#recordedIn === this.#recorder.submits) {
      throw new KernelError(this.name, `${param} changes between two records of one submit`);
    }
  }

  /** Records one launch over a grid of workgroups; an empty grid records nothing. */
  record(x: number, y = 1, z = 1): void {
    this.#record([x, y, z], undefined);
  }

  /** Records one launch over the grid that `from` holds when it runs: `x` by `y` by `z` at most. */
  recordIndirect(from: IndirectGrid, x: number, y = 1, z = 1): void {
    this.#record([x, y, z], from);
  }

  #record(grid: RecordedLaunch["grid"], indirect: IndirectGrid | undefined): void {
    if (grid.includes(0)) return;
    const { entry, group, uniforms } = this.#binding;
    const { pipeline } = entry;
    if (pipeline === undefined)
      throw new KernelError(this.name, "its pipeline is not compiled yet");
    this.#recorder.launch({ kernel: this, pipeline, group, uniforms, grid, indirect });
    this.#recordedIn = this.#recorder.submits;
  }

  /** What a launch recorded now has to do. */
  cost(grid: readonly [number, number, number], step: StepArrays): LaunchCost | undefined {
    const param = (name: P) => {
      const { word, type } = this.#words.get(name)!;
      return this.#recorder.value(word, type);
    };
    return this.#binding.cost?.({ grid, param, step });
  }
}
