import { expect, test } from "vitest";
import { CheckpointError, InvalidRequestError } from "../../src/errors.ts";

test("a message shows both ends of what it quotes, whatever its length", () => {
  const { message } = new InvalidRequestError(`Cannot take ${"x".repeat(1e6)}: it is long`);
  expect(message).toMatch(/^Cannot take x+\.\.\. \(\d+ characters\) \.\.\.x+: it is long$/);
  expect(message.length).toBeLessThan(4200);
  const short = `Cannot take ${"x".repeat(4000)}: it is long`;
  expect(new InvalidRequestError(short).message).toBe(short);
});

test("names of a file reach a terminal without their control characters", () => {
  const error = new CheckpointError("model.safetensors", "it is\r\nmissing", "\u001b[2Jname\u0000");
  expect(error.message).toBe("Cannot load model.safetensors ( [2Jname ): it is missing");
});
