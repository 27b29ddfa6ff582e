import { describe, expect, test } from "vitest";
import { readJsonBody, requireJsonContentType } from "../../src/http/read_body.ts";

function request(body: BodyInit | null, headers: Record<string, string> = {}): Request {
  const given = { "content-type": "application/json", ...headers };
  const init = { method: "POST", body, headers: given, duplex: "half" };
  return new Request("http://wisp.test/", init as RequestInit);
}

/** Sends one byte at a time, and says how many were asked for. */
function slowly(text: string): { body: ReadableStream; sent: () => number } {
  const bytes = new TextEncoder().encode(text);
  let sent = 0;
  const body = new ReadableStream({
    pull(controller) {
      if (sent === bytes.length) controller.close();
      else controller.enqueue(bytes.slice(sent, ++sent));
    },
  });
  return { body, sent: () => sent };
}

describe("readJsonBody", () => {
  test("reads a body that comes byte by byte, cut inside characters", async () => {
    const { body } = slowly('{"text":"日本語 🦊"}');
    expect(await readJsonBody(request(body), 100)).toEqual({ text: "日本語 🦊" });
  });

  test.each([
    ["", "it is empty"],
    ["{", "it is not JSON"],
    ["{}{}", "it is not JSON"],
    ["undefined", "it is not JSON"],
  ])("refuses %j", async (text, problem) => {
    await expect(readJsonBody(request(text), 100)).rejects.toMatchObject({
      code: "malformed_body",
      message: expect.stringContaining(`Cannot read the request body: ${problem}`),
    });
  });

  test("refuses a request without a body", async () => {
    await expect(readJsonBody(request(null), 100)).rejects.toThrow("it is empty");
  });

  test("refuses bytes that are not UTF-8", async () => {
    const bytes = new Uint8Array([0x22, 0xff, 0x22]);
    await expect(readJsonBody(request(bytes), 100)).rejects.toThrow("it is not UTF-8");
  });

  test("takes a body of exactly the limit and refuses one byte more", async () => {
    expect(await readJsonBody(request('"12345678"'), 10)).toBe("12345678");
    await expect(readJsonBody(request('"123456789"'), 10)).rejects.toMatchObject({
      code: "body_too_large",
    });
  });

  test("reads no further than the limit", async () => {
    const { body, sent } = slowly(`"${"x".repeat(1000)}"`);
    await expect(readJsonBody(request(body), 10)).rejects.toThrow("larger than 10 bytes");
    expect(sent()).toBeLessThan(20);
  });

  test("refuses by Content-Length before reading", async () => {
    const { body, sent } = slowly('"short"');
    const headers = { "content-length": "1000" };
    await expect(readJsonBody(request(body, headers), 10)).rejects.toThrow("larger than");
    expect(sent()).toBeLessThanOrEqual(1);
  });

  test("refuses a body that breaks off", async () => {
    const body = new ReadableStream({ pull: (controller) => controller.error(new Error("reset")) });
    await expect(readJsonBody(request(body), 10)).rejects.toThrow("it ended early");
  });
});

describe("requireJsonContentType", () => {
  test.each(["application/json", "application/json; charset=utf-8", "Application/JSON"])(
    "takes %s",
    (type) => {
      expect(() => requireJsonContentType(request("", { "content-type": type }))).not.toThrow();
    },
  );

  test.each(["text/plain", "application/jsonl", ""])("refuses %j", (type) => {
    expect(() => requireJsonContentType(request("", { "content-type": type }))).toThrow(
      "Cannot accept the Content-Type header",
    );
  });
});
