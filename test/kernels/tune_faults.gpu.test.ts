/** Forms that an adapter computes wrongly are not chosen, whatever time they take. */
import { afterEach, describe, expect, test, vi } from "vitest";
import { TimedMatrix } from "../../kernels/timed_matrix.ts";
import { tuneKernels } from "../../kernels/tune.ts";
import { tuneAttention } from "../../kernels/tune_attention.ts";
import { DeviceError } from "../../src/errors.ts";
import { device, smallestCaseOnly } from "../support/devices/gpu.ts";

const createShaderModule = device.createShaderModule.bind(device);
let planted = false;

/** Plants a fault in every kernel with such a name that is compiled from now on. */
function plant(kernel: RegExp, from: string, to: string): void {
  planted = false;
  vi.spyOn(device, "createShaderModule").mockImplementation((descriptor) => {
    const { label = "", code } = descriptor;
    if (!kernel.test(label) || !code.includes(from)) return createShaderModule(descriptor);
    planted = true;
    return createShaderModule({ ...descriptor, code: code.replaceAll(from, to) });
  });
}

afterEach(() => {
  vi.restoreAllMocks();
  expect(planted, "the text to replace is not there").toBe(true);
});

/** The last additions of a group in another order, where this holds. */
function plantOtherSums(when: string): void {
  const sum = "(chains.x + chains.y) + (chains.z + chains.w)";
  const other = "(chains.x + chains.z) + (chains.y + chains.w)";
  plant(/^linear\/linear$/, sum, `select(${sum}, ${other}, ${when})`);
}

/** Of a dtype and in a layout whose forms compile the soonest. */
const MATRIX = { dtype: "f32", rows: 40, columns: 300 } as const;
const LANES = 32;
const tune = () =>
  tuneKernels(device, { lanes: [LANES], orders: [], milliseconds: 1, matrices: [MATRIX] });

describe("launches over weights", () => {
  test("no time counts of a form with other bits", async () => {
    plantOtherSums("TOKENS == 2u");
    const options = { ...MATRIX, lanes: LANES, milliseconds: 1 };
    const matrix = await TimedMatrix.create(device, options);
    const seconds = (tokens: number) =>
      matrix.seconds({ tokens, split: 1, workgroup: LANES, cost: 1 });
    expect(await seconds(1)).toBeLessThan(1);
    expect(await seconds(2)).toBe(Number.POSITIVE_INFINITY);
    matrix.destroy();
  });

  test("an adapter is refused where every form of one row has other bits", async () => {
    plantOtherSums("TOKENS == 1u");
    const tuned = tune();
    await expect(tuned).rejects.toThrow(DeviceError);
    await expect(tuned).rejects.toThrow("the f32 kernels give other bits every time");
  });

  // A driver that compiles slowly is left to the other tests.
  test.skipIf(smallestCaseOnly)(
    "an adapter is refused whose winners do not pass the self-test",
    async () => {
      // The self-test's matrix alone has so many columns. It is told which forms have won.
      plantOtherSums("TOKENS == 2u || TOKENS == 8u || (TOKENS > 1u && params.columns == 269u)");
      const { name, message } = await tune().then(
        () => expect.fail("was not refused"),
        (error: Error) => error,
      );
      expect(name).toBe("DeviceError");
      expect(message).toMatch(/^Cannot tune kernels on this adapter: f32 linears give other bits/);
      expect(message).not.toMatch(/ (2|8) rows at once/);
    },
  );
});

test("an adapter is refused where attention has other bits whenever heads share a workgroup", async () => {
  // What is left out besides would compile for minutes.
  const start = "acc[a] = vec4f(); }";
  const answer = "seen[i] = vec2f(0.0, f32(QUERIES));";
  const end = `if QUERIES > 0u { for (var i = 0u; i < count; i++) { ${answer} } return; }`;
  plant(/^attention\//, start, `acc[a] = vec4f(1.0); }\n  ${end}`);
  const tuned = tuneAttention(device, { keys: 64, milliseconds: 1 });
  await expect(tuned).rejects.toThrow(DeviceError);
  await expect(tuned).rejects.toThrow("attention gives other bits every time");
});
