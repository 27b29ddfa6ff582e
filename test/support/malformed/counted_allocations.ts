/**
 * What code asks for by a number: typed arrays, arrays of a length, repeated texts. What grows with
 * each thing that is read is not counted: it is as large as what it was read from.
 *
 * @module
 */

export interface Allocations {
  /** Bytes of the largest one that was asked for. */
  readonly largest: number;
  /** Bytes of all of them. */
  readonly total: number;
}

const TYPED = [
  ...["Uint8Array", "Uint16Array", "Uint32Array", "Int32Array"],
  ...["Float32Array", "Float64Array", "BigUint64Array"],
] as const;

/** Bytes of an element of an array or a text, about. */
const ELEMENT_BYTES = 8;

/** Counts while `work` runs; nothing else may run in the process meanwhile. */
export async function countAllocations<T>(
  work: () => Promise<T>,
): Promise<{ readonly result: T; readonly allocations: Allocations }> {
  let largest = 0;
  let total = 0;
  const count = (bytes: unknown) => {
    if (typeof bytes !== "number") return;
    largest = Math.max(largest, bytes);
    total += bytes;
  };
  const restore = [...TYPED.map((name) => watchTyped(name, count)), ...watchArrays(count)];
  try {
    const result = await work();
    return { result, allocations: { largest, total } };
  } finally {
    for (const undo of restore) undo();
  }
}

type Count = (bytes: unknown) => void;

function watchTyped(name: (typeof TYPED)[number], count: Count): () => void {
  const real = globalThis[name];
  const watched = new Proxy(real, {
    construct(target, given, newTarget) {
      const [length] = given as unknown[];
      if (typeof length === "number") count(length * real.BYTES_PER_ELEMENT);
      return Reflect.construct(target, given, newTarget);
    },
  });
  Object.assign(globalThis, { [name]: watched });
  return () => Object.assign(globalThis, { [name]: real });
}

function watchArrays(count: Count): (() => void)[] {
  const { from } = Array;
  const { repeat, padStart, padEnd } = String.prototype;
  const RealArray = Array;
  Array.from = ((source: unknown, ...rest: unknown[]) => {
    if (typeof source === "object" && source !== null && !(Symbol.iterator in source)) {
      count(((source as { readonly length?: number }).length ?? 0) * ELEMENT_BYTES);
    }
    return Reflect.apply(from, RealArray, [source, ...rest]) as unknown[];
  }) as typeof Array.from;
  globalThis.Array = new Proxy(RealArray, {
    construct(target, given, newTarget) {
      if (given.length === 1 && typeof given[0] === "number") count(given[0] * ELEMENT_BYTES);
      return Reflect.construct(target, given, newTarget);
    },
  });
  const texts = { repeat, padStart, padEnd };
  for (const [name, method] of Object.entries(texts)) {
    const counted = function (this: string, length: number, ...rest: unknown[]) {
      count(name === "repeat" ? length * this.length : length);
      return Reflect.apply(method, this, [length, ...rest]) as string;
    };
    Object.assign(String.prototype, { [name]: counted });
  }
  return [
    () => {
      RealArray.from = from;
      globalThis.Array = RealArray;
      Object.assign(String.prototype, texts);
    },
  ];
}
