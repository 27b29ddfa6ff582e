import { describe, expect, test } from "vitest";
import { parseOptions } from "../../../src/node/options/option_parser.ts";
import { LAUNCH_OPTIONS } from "../../../src/node/options/options.ts";
import { areThreads } from "../../../src/node/threads/thread_ranks.ts";

const launch = (...args: string[]) => parseOptions(LAUNCH_OPTIONS, args).values;

describe("areThreads", () => {
  test("where each rank has a core", () => {
    const cores = (most: number, ...args: string[]) => areThreads(launch(...args), {}, most);
    expect(cores(2, "--tp", "2")).toBe(true);
    expect(cores(1, "--tp", "2")).toBe(false);
    expect(cores(3, "--tp", "2", "--dp", "2")).toBe(false);
    expect(cores(4, "--tp", "2", "--dp", "2")).toBe(true);
    expect(cores(2, "--tp", "2", "--dp", "2", "--enable-dp-attention")).toBe(true);
  });

  test("unless one rank is all there is, or the ranks share requests or sleep", () => {
    const cores = (...args: string[]) => areThreads(launch(...args), { WISP_RANK_THREADS: "1" }, 8);
    expect(cores("--tp", "2")).toBe(true);
    expect(cores()).toBe(false);
    expect(cores("--tp", "2", "--disaggregation-mode", "decode")).toBe(false);
    expect(cores("--tp", "2", "--sleep-idle-seconds", "60")).toBe(false);
  });

  test("as the variable says", () => {
    const asked = (value: string, most: number) =>
      areThreads(launch("--tp", "2"), { WISP_RANK_THREADS: value }, most);
    expect([asked("1", 1), asked("TRUE", 1), asked("", 1)]).toEqual([true, true, false]);
    expect([asked("0", 8), asked("false", 8), asked(" ", 8)]).toEqual([false, false, true]);
    expect(() => asked("2", 8)).toThrow("Cannot use WISP_RANK_THREADS 2: it must be true or false");
  });
});
