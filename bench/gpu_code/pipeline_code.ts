/**
 * What a GPU's compiler made of a pipeline, in terms that all GPUs have.
 *
 * @module
 */
import { amdLoops } from "./amd_loops.ts";
import { intelLoops } from "./intel_loops.ts";
import type { LoopCode } from "./loop_counts.ts";

export interface PipelineCode {
  /** The name of the compiled model, of `COMPILED_MODELS`. */
  readonly model: string;
  /** The kernel, such as "linear/linear". */
  readonly kernel: string;
  /** What the wrapper chose, such as `{"TOKENS": 1}`. */
  readonly constants: Readonly<Record<string, unknown>>;
  /** Invocations of a wave or thread. */
  readonly width: number;
  /** AMD: vector registers of an invocation. Intel: registers of 32 bytes that are alive at once. */
  readonly registers: number;
  /** AMD: waves a SIMD has room for. Intel has as many threads always. */
  readonly waves: number | undefined;
  /** AMD: registers that are spilled. Intel: writes of spilled registers in the code. */
  readonly spills: number;
  /** Bytes of private memory, of an AMD wave or an Intel thread. */
  readonly scratch: number;
  readonly instructions: number;
  /** Loops that hold no other, in the order of the code. */
  readonly loops: readonly LoopCode[];
}

/** A line that the driver wrote: the compiler's own fields. */
export type CompilerFields = Readonly<Record<string, unknown>> & {
  readonly label: string;
  readonly wave: number;
  readonly isa: string;
};

const number = (fields: CompilerFields, name: string) => Number(fields[name] ?? 0);

/** A pipeline's label: model, kernel, and perhaps constants. */
function readLabel(label: string): Pick<PipelineCode, "model" | "kernel" | "constants"> {
  const [model = "", kernel = ""] = label.split(" ", 2);
  const at = label.indexOf("{");
  const text = at < 0 ? "{}" : label.slice(at, label.lastIndexOf("}") + 1);
  return { model, kernel, constants: JSON.parse(text) as Readonly<Record<string, unknown>> };
}

function readAmd(fields: CompilerFields): PipelineCode {
  return {
    ...readLabel(fields.label),
    width: fields.wave,
    registers: number(fields, "VGPRs"),
    waves: number(fields, "Subgroups per SIMD"),
    spills: number(fields, "Spilled VGPRs"),
    scratch: number(fields, "Scratch size"),
    instructions: number(fields, "Instructions"),
    loops: amdLoops(fields.isa),
  };
}

function readIntel(fields: CompilerFields): PipelineCode {
  return {
    ...readLabel(fields.label),
    width: fields.wave,
    registers: number(fields, "Max live registers"),
    waves: undefined,
    spills: number(fields, "Spill Count"),
    scratch: number(fields, "Scratch Memory Size"),
    instructions: number(fields, "Instruction Count"),
    loops: intelLoops(fields.isa),
  };
}

/** Every pipeline that the driver told of, those of one code and label once. */
export function readPipelines(jsonl: string): PipelineCode[] {
  const seen = new Set<string>();
  const found: PipelineCode[] = [];
  for (const line of jsonl.split("\n")) {
    if (line === "") continue;
    const fields = JSON.parse(line) as CompilerFields;
    const key = `${fields.label} ${fields.isa}`;
    if (seen.has(key)) continue;
    seen.add(key);
    found.push("VGPRs" in fields ? readAmd(fields) : readIntel(fields));
  }
  return found;
}

/**
 * The loop in which a pipeline spends its time: the one with the most multiply-adds, of several as many
 * the shortest; undefined where no loop multiplies and adds.
 */
export function hotLoop({ loops }: Pick<PipelineCode, "loops">): LoopCode | undefined {
  return loops
    .filter(({ multiplyAdds }) => multiplyAdds > 0)
    .toSorted((a, b) => b.multiplyAdds - a.multiplyAdds || a.instructions - b.instructions)[0];
}
