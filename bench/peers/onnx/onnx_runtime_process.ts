/**
 * ONNX Runtime's WebGPU provider, driven in a process of its own on the adapter of this one.
 *
 * @module
 */
import { type ChildProcess, fork } from "node:child_process";
import { fileURLToPath } from "node:url";
import { type OnnxGraph, onnxModel } from "./onnx_writer.ts";

export const ONNX_RUNTIME = "onnxruntime-node 1.30.0";

export interface CallTime {
  readonly seconds: number;
  /** Of all threads of the process. */
  readonly cpuSeconds: number;
}

/** What is measured: calls that upload their inputs, launch, and read their output back. */
export interface Contestant {
  readonly name: string;
  /** Launches of a call. */
  readonly launches: number;
  /** The least of `times` calls. */
  run(times: number): Promise<CallTime>;
  close(): Promise<unknown>;
}

export interface PeerTensor {
  readonly type: "float32" | "float16" | "int32";
  readonly shape: readonly number[];
  /** Of float16 the bits. */
  readonly data: Float32Array | Uint16Array | Int32Array;
}

/** A graph to run, and what must come out. */
export interface PeerCase {
  readonly name: string;
  readonly launches: number;
  readonly graph: OnnxGraph;
  readonly inputs: Readonly<Record<string, PeerTensor>>;
  /** Inputs that stay on the GPU, each with the output that updates it in place. */
  readonly resident: Readonly<Record<string, string>>;
  readonly fetch: string;
  /** Elements of the fetched output as numbers. */
  decode(output: Float32Array | Uint16Array): ArrayLike<number>;
  readonly want: Float64Array;
  /** Largest allowed difference, by the root mean square of what is wanted. */
  readonly tolerance: number;
}

type Answer = CallTime & {
  readonly output: Float32Array | Uint16Array;
  readonly error?: string;
};

export class OnnxRuntime {
  readonly #child: ChildProcess;
  #sessions = 0;

  /** The driver's variables are those of this process. */
  constructor() {
    const path = fileURLToPath(new URL("./onnx_runtime_child.mjs", import.meta.url));
    // Dawn warns about limits that it lowers.
    const stdio = ["ignore", "inherit", "ignore", "ipc"] as const;
    this.#child = fork(path, { serialization: "advanced", stdio: [...stdio] });
  }

  /** @throws {Error} when the values are wrong. */
  async open(one: PeerCase): Promise<Contestant> {
    const { name, launches, graph, inputs, resident, fetch } = one;
    const session = `session ${this.#sessions++}`;
    const model = onnxModel(graph);
    const { output } = await this.#ask({ open: session, model, inputs, resident, fetch });
    requireClose(name, one.decode(output), one);
    return {
      name,
      launches,
      run: (times) => this.#ask({ run: session, times }),
      close: () => this.#ask({ close: session }),
    };
  }

  close(): void {
    this.#child.disconnect();
  }

  #ask(message: object): Promise<Answer> {
    const child = this.#child;
    return new Promise((resolve, reject) => {
      const exited = (code: number | null) =>
        reject(new Error(`ONNX Runtime's process ended with ${code}`));
      child.once("exit", exited);
      child.once("message", (answer: Answer) => {
        child.off("exit", exited);
        if (answer.error === undefined) resolve(answer);
        else reject(new Error(answer.error));
      });
      child.send(message);
    });
  }
}

/** @throws {Error} unless the numbers are those, zeros and NaN included. */
export function requireClose(
  name: string,
  got: ArrayLike<number>,
  { want, tolerance }: Pick<PeerCase, "want" | "tolerance">,
): void {
  if (got.length !== want.length) throw new Error(`${name}: ${got.length} values`);
  const typical = Math.sqrt(want.reduce((sum, value) => sum + value * value, 0) / want.length);
  want.forEach((value, i) => {
    if (Math.abs(got[i]! - value) <= tolerance * typical) return;
    throw new Error(`${name}: value ${i} is ${got[i]}, not ${value}`);
  });
}
