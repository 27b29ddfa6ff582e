/**
 * Counting instructions of a loop.
 *
 * @module
 */
/** An iteration of a loop that holds no other, or of straight code. */
export interface LoopCode {
  /** Instructions that are issued, without hints to the scheduler. */
  readonly instructions: number;
  /** Of them those of the vector unit. */
  readonly vector: number;
  /** Fused multiply-adds, dots, and operations of matrix units; an instruction of two counts twice. */
  readonly multiplyAdds: number;
  /** Of them operations of matrix units. */
  readonly matrixOperations: number;
  /** Vector loads of global memory, by bytes an invocation. */
  readonly loads: ReadonlyMap<number, number>;
  /** Loads of global memory that all invocations share. */
  readonly uniformLoads: number;
  /** Waits for memory. */
  readonly waits: number;
  /**
   * Vector loads of global memory that are in flight when the first of them is waited for, at most: each of these
   * waits is for so many loads. Undefined where none is waited for, or the machine code does not tell.
   */
  readonly loadsInFlight: number | undefined;
  /** Accesses of private memory: what is spilled, and arrays that are indexed by a running number. */
  readonly privateAccesses: number;
  readonly workgroupAccesses: number;
  /** Accesses that cross lanes. */
  readonly shuffles: number;
  readonly branches: number;
  readonly barriers: number;
}

type Counts = { -readonly [Name in keyof LoopCode]: LoopCode[Name] };

/** Counts that start at 0. */
export function noCounts(): Counts & { loads: Map<number, number> } {
  return {
    instructions: 0,
    vector: 0,
    multiplyAdds: 0,
    matrixOperations: 0,
    loads: new Map(),
    uniformLoads: 0,
    waits: 0,
    loadsInFlight: undefined,
    privateAccesses: 0,
    workgroupAccesses: 0,
    shuffles: 0,
    branches: 0,
    barriers: 0,
  };
}

export type LoopCounts = ReturnType<typeof noCounts>;

/** Adds a load of so many bytes an invocation. */
export function addLoad({ loads }: LoopCounts, bytes: number): void {
  loads.set(bytes, (loads.get(bytes) ?? 0) + 1);
}

/** Where a loop begins and ends in a text, both included. */
export interface Span {
  readonly from: number;
  readonly to: number;
}

/** Those that hold no other. */
export function innermost(spans: readonly Span[]): Span[] {
  const holds = (outer: Span, inner: Span) =>
    outer !== inner && outer.from <= inner.from && inner.to <= outer.to;
  return spans.filter((span) => !spans.some((other) => holds(span, other)));
}
