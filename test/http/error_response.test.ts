import { describe, expect, test } from "vitest";
import {
  CapacityError,
  DeviceError,
  InvalidRequestError,
  UnsupportedError,
} from "../../src/errors.ts";
import {
  errorStatus,
  flatErrorBody,
  generateErrorResponse,
  HttpError,
} from "../../src/http/error_response.ts";

describe("errorStatus", () => {
  test.each([
    [new InvalidRequestError("x"), 400],
    [new UnsupportedError("x"), 400],
    [new HttpError("malformed_body", "x"), 400],
    [new HttpError("wrong_content_type", "x"), 400],
    [new HttpError("not_found", "x"), 404],
    [new HttpError("method_not_allowed", "x"), 405],
    [new HttpError("body_too_large", "x"), 413],
    [new DOMException("x", "AbortError"), 499],
    [new DeviceError("x"), 500],
    [new TypeError("x"), 500],
    ["a string", 500],
    [undefined, 500],
    [new CapacityError("requests", 8), 503],
  ])("of %s is %i", (error, status) => {
    expect(errorStatus(error)).toBe(status);
    expect(flatErrorBody(error).code).toBe(status);
  });
});

test("flatErrorBody keeps the message of an unexpected error to itself", () => {
  expect(flatErrorBody(new TypeError("secret of /home"))).toEqual({
    object: "error",
    message: "Internal server error",
    type: "InternalServerError",
    param: null,
    code: 500,
  });
});

test("flatErrorBody tells what a device error says", () => {
  expect(flatErrorBody(new DeviceError("Cannot allocate 4 GiB: out of memory")).message).toBe(
    "Cannot allocate 4 GiB: out of memory",
  );
});

test("generateErrorResponse nests refusals only", async () => {
  const body = async (error: unknown) => generateErrorResponse(error).json();
  expect(await body(new InvalidRequestError("no"))).toEqual({ error: { message: "no" } });
  expect(await body(new HttpError("malformed_body", "no"))).toMatchObject({
    object: "error",
    message: "no",
    type: "Bad Request",
    code: 400,
  });
  expect(await body(new CapacityError("requests", 8))).toMatchObject({ type: "503", code: 503 });
});
