import { describe, expect, test } from "vitest";
import {
  CapacityError,
  ContextLengthError,
  DeviceError,
  GroupError,
  InvalidRequestError,
  RequestLosesDeviceError,
  TransferError,
  UnsupportedError,
} from "../../src/errors.ts";
import {
  errorBody,
  errorResponse,
  errorStatus,
  flatError,
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
    [new CapacityError("places in the request queue", 8, "all 8 are taken"), 503],
    [new GroupError("Cannot go on without rank 1: SIGKILL has ended it"), 503],
  ])("of %s is %i", (error, status) => {
    expect(errorStatus(error)).toBe(status);
    expect(flatError(error).code).toBe(status);
  });
});

test("flatError keeps the message of an unexpected error to itself", () => {
  expect(flatError(new TypeError("secret of /home"))).toEqual({
    object: "error",
    message: "Internal server error",
    type: "InternalServerError",
    param: null,
    code: 500,
  });
});

test("flatError tells what a device error says", () => {
  expect(flatError(new DeviceError("Cannot allocate 4 GiB: out of memory")).message).toBe(
    "Cannot allocate 4 GiB: out of memory",
  );
});

test("a request that loses devices is told so, and not to be sent again", async () => {
  const answer = errorResponse(new RequestLosesDeviceError("r", 4));
  expect([answer.status, answer.headers.get("x-should-retry")]).toEqual([500, "false"]);
  const message =
    "Cannot go on with request r: the device was lost 4 times while its rows were computed, at last while only its rows were";
  const code = "request_loses_device";
  expect(await answer.json()).toMatchObject({ code: 500, message, error: { message, code } });
  expect(errorResponse(new DeviceError("x")).headers.get("x-should-retry")).toBeNull();
});

test("generateErrorResponse nests refusals only", async () => {
  const body = async (error: unknown) => generateErrorResponse(error).json();
  const refused = { message: "no", type: "invalid_request_error", param: "text", code: 400 };
  expect(await body(new InvalidRequestError("no", "text"))).toEqual({ error: refused });
  expect(await body(new HttpError("malformed_body", "no"))).toMatchObject({
    object: "error",
    message: "no",
    type: "Bad Request",
    code: 400,
  });
  expect(
    await body(new CapacityError("places in the request queue", 8, "all 8 are taken")),
  ).toMatchObject({ type: "503", code: 503 });
});

test.each([
  new InvalidRequestError("no", "top_p"),
  new ContextLengthError("no", "top_p"),
  new UnsupportedError("top_p", "no", { field: "top_p" }),
  new HttpError("malformed_body", "no", { field: "top_p" }),
])("errorBody names the field of %s in both forms", (error) => {
  expect(errorBody(error)).toMatchObject({ param: "top_p", error: { param: "top_p" } });
});

test("errorBody blames no field for what no field is to blame", () => {
  const error = new TransferError("a page", "checksum", "it is another");
  expect(errorBody(error)).toMatchObject({ param: null, error: { param: null } });
});

test.each([
  [new InvalidRequestError("no"), "invalid_request_error", null],
  [new ContextLengthError("no"), "invalid_request_error", "context_length_exceeded"],
  [new HttpError("not_found", "no"), "invalid_request_error", "unknown_url"],
  [new HttpError("model_not_found", "no"), "invalid_request_error", "model_not_found"],
  [new HttpError("unauthorized", "no"), "invalid_request_error", "invalid_api_key"],
  [new CapacityError("places in the request queue", 8, "all 8 are taken"), "server_error", null],
  [new DeviceError("no"), "server_error", null],
])("errorBody has OpenAI's type and code of %s", (error, type, code) => {
  expect(errorBody(error).error).toMatchObject({ type, code });
});
