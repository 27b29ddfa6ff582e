import { describe, expect, test } from "vitest";
import { errorData, errorOf } from "../../../src/engine/remote/error_data.ts";
import {
  CapacityError,
  CheckpointError,
  ContextLengthError,
  DeviceError,
  EngineError,
  GroupError,
  InvalidRequestError,
  KernelError,
  RequestLosesDeviceError,
  TransferError,
  UnsupportedError,
  WorkerError,
} from "../../../src/errors.ts";
import { GrammarError } from "../../../src/grammar/grammar_error.ts";

/** What the other side has. */
const crossed = (thrown: unknown) => errorOf(structuredClone(errorData(thrown)));

describe("an error on the other side", () => {
  test.each([
    new InvalidRequestError("Cannot use it", "top_p"),
    new ContextLengthError("The input is too long", "prompt"),
    new GrammarError("Cannot read it", { position: 3 }),
    new CapacityError("places in the request queue", 3, "all 3 are taken"),
    new CheckpointError("config.json", "it is damaged", "layers"),
    new UnsupportedError("draft models"),
    new UnsupportedError("top_q", "it is not known", { field: "top_q" }),
    new DeviceError("Cannot go on"),
    new RequestLosesDeviceError("r", 4),
    new KernelError("norm", "it is none"),
    new TransferError("a page", "checksum", "it differs"),
    new WorkerError("Cannot follow"),
    new GroupError("Cannot agree"),
    new TypeError("no function"),
    new RangeError("too far"),
    new Error("plain"),
  ])("is the same %o", (error) => {
    const found = crossed(error);
    expect(Object.getPrototypeOf(found)).toBe(Object.getPrototypeOf(error));
    expect(found).toEqual(error);
    expect({ ...found }).toEqual({ ...error });
    expect([found.name, found.stack]).toEqual([error.name, error.stack]);
  });

  test("is a DOMException of the same name", () => {
    const found = crossed(new DOMException("stopped", "AbortError"));
    expect(found).toBeInstanceOf(DOMException);
    expect([found.name, found.message]).toEqual(["AbortError", "stopped"]);
  });

  test("has the nearest class that is known here, and its own name and fields", () => {
    class OddError extends EngineError {
      readonly code = "odd";
      readonly bytes = 7;
      readonly list = [1];
    }
    const found = crossed(new OddError("Cannot be even"));
    expect(Object.getPrototypeOf(found)).toBe(EngineError.prototype);
    expect({ ...found }).toEqual({ name: "OddError", code: "odd", bytes: 7 });
  });

  test("has its causes, some deep, and an endless chain an end", () => {
    const cause = new RangeError("deep", { cause: "a text" });
    const found = crossed(new DeviceError("Cannot go on", { cause }));
    expect(found.cause).toBeInstanceOf(RangeError);
    expect(found.cause).toMatchObject({ message: "deep" });
    expect((found.cause as Error).cause).toEqual(new Error("a text"));
    const endless = new Error("again");
    endless.cause = endless;
    expect(crossed(endless).message).toBe("again");
  });

  test("is an Error where none was thrown", () => {
    expect(crossed("oops")).toEqual(new Error("oops"));
    expect(crossed(undefined)).toEqual(new Error("undefined"));
  });
});
