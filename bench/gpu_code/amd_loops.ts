/**
 * The loops of AMD's machine code, as Mesa's compiler prints it: blocks "BB3:" of instructions.
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

interface Block {
  readonly id: number;
  readonly lines: string[];
}

function blocksOf(isa: string): Block[] {
  const blocks: Block[] = [];
  for (const line of isa.split("\n")) {
    const head = /^BB(\d+):/.exec(line);
    if (head) blocks.push({ id: Number(head[1]), lines: [] });
    else if (line.startsWith("\t")) blocks.at(-1)?.lines.push(line.trim());
  }
  return blocks;
}

/** From a block that a later one jumps back to, to the last one that does. */
function loopsOf(blocks: readonly Block[]): Span[] {
  const place = new Map(blocks.map(({ id }, i) => [id, i]));
  const ends = new Map<number, number>();
  for (const [i, { lines }] of blocks.entries()) {
    for (const line of lines) {
      const target = /^s_c?branch\S*\s+BB(\d+)/.exec(line);
      const from = target ? place.get(Number(target[1])) : undefined;
      if (from !== undefined && from <= i) ends.set(from, i);
    }
  }
  return [...ends].map(([from, to]) => ({ from, to }));
}

/** Bytes that an access moves for each invocation. */
function bytesOf(opcode: string): number {
  const [, word] =
    /_(ubyte|sbyte|ushort|sshort|d16|[ui]8|[ui]16|dwordx\d+|dword|b\d+)/.exec(opcode) ?? [];
  if (word === undefined) return 4;
  if (word.startsWith("dword")) return 4 * Number(word.slice("dwordx".length) || 1);
  if (word.startsWith("b")) return Number(word.slice(1)) / 8;
  return /byte|8/.test(word) ? 1 : 2;
}

const HINTS = new Set(["s_delay_alu", "s_nop", "s_clause"]);
/** One line may hold two operations that are issued together. */
const MULTIPLY_ADD = /\bv_(?:dual_)?(?:pk_)?(?:fma|mad|mac|dot\d)|:: v_dual_fma|v_s?wmma|v_mfma/g;
const MATRIX_OPERATION = /^v_(s?wmma|mfma)/;

function countVector(counts: LoopCounts, line: string): void {
  counts.vector++;
  counts.multiplyAdds += line.match(MULTIPLY_ADD)?.length ?? 0;
  if (MATRIX_OPERATION.test(line)) counts.matrixOperations++;
  if (/^v_(readlane|readfirstlane|permlane)|dpp/.test(line)) counts.shuffles++;
}

function countAccess(counts: LoopCounts, opcode: string): boolean {
  if (/^scratch_/.test(opcode)) counts.privateAccesses++;
  else if (/^(buffer|global|flat)_load/.test(opcode)) addLoad(counts, bytesOf(opcode));
  else if (/^ds_(bpermute|permute|swizzle)/.test(opcode)) counts.shuffles++;
  else if (/^ds_/.test(opcode)) counts.workgroupAccesses++;
  else if (/^s_(buffer_)?load/.test(opcode)) counts.uniformLoads++;
  else return false;
  return true;
}

const LOAD = /^(buffer|global|flat)_load/;
const WAIT = /^s_wait\S*.*vmcnt\((\d+)\)/;

/** Of the second of two iterations: what the first has left is in flight as well. */
function loadsInFlight(lines: readonly string[]): number | undefined {
  let inFlight = 0;
  let most: number | undefined;
  for (const isMeasured of [false, true]) {
    for (const line of lines) {
      const wait = WAIT.exec(line);
      if (LOAD.test(line)) inFlight++;
      if (wait === null || Number(wait[1]) >= inFlight) continue;
      if (isMeasured) most = Math.max(most ?? 0, inFlight);
      inFlight = Number(wait[1]);
    }
  }
  return most;
}

function count(lines: readonly string[]): LoopCode {
  const counts = noCounts();
  counts.loadsInFlight = loadsInFlight(lines);
  for (const line of lines) {
    const code = line.split(";")[0]!.trim();
    const opcode = code.split(/\s/)[0]!;
    // The first of several of one kind stands for all: "(then repeated 6 times)".
    if (HINTS.has(opcode) || opcode.startsWith("(")) continue;
    counts.instructions++;
    if (countAccess(counts, opcode)) continue;
    if (opcode.startsWith("v_")) countVector(counts, code);
    else if (/^s_wait/.test(opcode)) counts.waits++;
    else if (/^s_barrier/.test(opcode)) counts.barriers++;
    else if (/^s_c?branch/.test(opcode)) counts.branches++;
  }
  return counts;
}

/** The loops that hold no other. */
export function amdLoops(isa: string): LoopCode[] {
  const blocks = blocksOf(isa);
  return innermost(loopsOf(blocks)).map(({ from, to }) =>
    count(blocks.slice(from, to + 1).flatMap(({ lines }) => lines)),
  );
}
