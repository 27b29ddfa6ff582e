/**
 * The loops of Intel's machine code, as Mesa's compiler prints it: labels, instructions, and below a
 * "send" the message that it sends.
 *
 * @module
 */
import {
  addLoad,
  innermost,
  type LoopCode,
  type LoopCounts,
  noCounts,
  type Span,
} from "./loop_counts.ts";

/** The surface through which a thread reaches its private memory. */
const PRIVATE = /bti 253|Surface = 253|, ss \)/;
const WORKGROUP = /slm MsgDesc|Surface = 254|bti 254/;
const BRANCH = /^(if|else|endif|while|break|cont|halt|goto|join|jmpi)$/;
/** Of messages that read four channels: the ones left out, a bit each. */
const CHANNELS = 4;

/** From a label to the "while" that goes back to it. */
function loopsOf(lines: readonly string[]): Span[] {
  const places = new Map<string, number>();
  const spans: Span[] = [];
  for (const [i, line] of lines.entries()) {
    const label = /^(LABEL\d+):/.exec(line);
    if (label) places.set(label[1]!, i);
    const back = /^(?:\([^)]*\)\s*)?while\(\d+\)\s+JIP:\s+(LABEL\d+)/.exec(line);
    const from = back ? places.get(back[1]!) : undefined;
    if (from !== undefined) spans.push({ from, to: i });
  }
  return spans;
}

/** What a load brings: bytes an invocation, or undefined where all share it. */
function loadBytes(message: string): number | undefined {
  const untyped = /Mask = 0x([0-9a-f])/.exec(message);
  if (untyped) {
    const left = Number.parseInt(untyped[1]!, 16);
    return 4 * (CHANNELS - [0, 1, 2, 3].filter((bit) => (left >> bit) & 1).length);
  }
  const vectors = /\bd(8|16|32|64)(?:u32)?, V(\d+)(, transpose)?/.exec(message);
  if (vectors) return vectors[3] ? undefined : (Number(vectors[1]) / 8) * Number(vectors[2]);
  if (/OWORD block read|owords = |const MsgDesc/.test(message)) return undefined;
  return /byte scattered/.test(message) ? 1 : 4;
}

function countMessage(counts: LoopCounts, message: string): void {
  const isWrite = /write|store/.test(message);
  if (/barrier msg/.test(message)) counts.barriers++;
  else if (/fence|gateway|thread_spawner/.test(message)) return;
  else if (PRIVATE.test(message)) counts.privateAccesses++;
  else if (WORKGROUP.test(message)) counts.workgroupAccesses++;
  else if (!isWrite && !/atomic/.test(message)) {
    const bytes = loadBytes(message);
    if (bytes === undefined) counts.uniformLoads++;
    else addLoad(counts, bytes);
  }
}

function countInstruction(counts: LoopCounts, line: string): void {
  const opcode = line.replace(/^\([^)]*\)\s*/, "").split(/[\s(.]/)[0]!;
  counts.instructions++;
  if (opcode === "sync") counts.waits++;
  else if (BRANCH.test(opcode)) counts.branches++;
  else if (!/^sends?c?$/.test(opcode)) {
    counts.vector++;
    if (/^(mad|dp4a|dpas)$/.test(opcode)) counts.multiplyAdds++;
    if (opcode === "dpas") counts.matrixOperations++;
    // A register that is read by an address of the lane's.
    if (/\br\[a0|g\[a0/.test(line)) counts.shuffles++;
  }
}

function count(lines: readonly string[]): LoopCode {
  const counts = noCounts();
  for (const line of lines) {
    if (/MsgDesc:/.test(line)) countMessage(counts, line);
    else if (/^[a-z(]/.test(line)) countInstruction(counts, line);
  }
  return counts;
}

/** The loops that hold no other. */
export function intelLoops(isa: string): LoopCode[] {
  const lines = isa.split("\n");
  return innermost(loopsOf(lines)).map(({ from, to }) => count(lines.slice(from, to + 1)));
}
