import { deflateSync, gzipSync } from "node:zlib";
import { describe, expect, test, vi } from "vitest";
import { BodyMemory } from "../../src/http/body_memory.ts";
import { readBodyBytes, readJsonBody, requireJsonContentType } from "../../src/http/read_body.ts";

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
    expect(await readJsonBody(request(body), { maxBytes: 100 })).toEqual({ text: "日本語 🦊" });
  });

  test.each([
    ["", "it is empty"],
    ["{", "it is not JSON"],
    ["{}{}", "it is not JSON"],
    ["undefined", "it is not JSON"],
  ])("refuses %j", async (text, problem) => {
    await expect(readJsonBody(request(text), { maxBytes: 100 })).rejects.toMatchObject({
      code: "malformed_body",
      message: expect.stringContaining(`Cannot read the request body: ${problem}`),
    });
  });

  test("refuses a request without a body", async () => {
    await expect(readJsonBody(request(null), { maxBytes: 100 })).rejects.toThrow("it is empty");
  });

  test("refuses bytes that are not UTF-8", async () => {
    const bytes = new Uint8Array([0x22, 0xff, 0x22]);
    await expect(readJsonBody(request(bytes), { maxBytes: 100 })).rejects.toThrow(
      "it is not UTF-8",
    );
  });

  test("takes a body of exactly the limit and refuses one byte more", async () => {
    expect(await readJsonBody(request('"12345678"'), { maxBytes: 10 })).toBe("12345678");
    await expect(readJsonBody(request('"123456789"'), { maxBytes: 10 })).rejects.toMatchObject({
      code: "body_too_large",
    });
  });

  test("reads no further than the limit", async () => {
    const { body, sent } = slowly(`"${"x".repeat(1000)}"`);
    await expect(readJsonBody(request(body), { maxBytes: 10 })).rejects.toThrow(
      "larger than 10 bytes",
    );
    expect(sent()).toBeLessThan(20);
  });

  test("refuses by Content-Length before reading", async () => {
    const { body, sent } = slowly('"short"');
    const headers = { "content-length": "1000" };
    await expect(readJsonBody(request(body, headers), { maxBytes: 10 })).rejects.toThrow(
      "larger than",
    );
    expect(sent()).toBeLessThanOrEqual(1);
  });

  test("other work has its turns while a large body is put together", async () => {
    const MIB = 2 ** 20;
    let left = (8 * MIB) / 2 ** 16;
    const body = new ReadableStream({
      pull(controller) {
        // Refused at its first byte, so that no turn is that of the parser.
        if (left-- > 0) controller.enqueue(new Uint8Array(2 ** 16).fill(0x5d));
        else controller.close();
      },
    });
    // Of the event loop: a timer need not be due in each.
    let turns = 0;
    let isOver = false;
    const countTurn = () => {
      turns++;
      if (!isOver) setImmediate(countTurn);
    };
    setImmediate(countTurn);
    await expect(readJsonBody(request(body), { maxBytes: 8 * MIB })).rejects.toThrow(/bracket/);
    isOver = true;
    expect(turns).toBeGreaterThan(4);
  });

  test("asks for a small body whole, and counts it like a stream", async () => {
    const sent = request('{"a":1}', { "content-length": "7" });
    const share = new BodyMemory(100).of(sent);
    const whole = vi.spyOn(sent, "arrayBuffer");
    const bytes = await readBodyBytes(sent, { maxBytes: 100, share });
    expect(bytes).toEqual(new TextEncoder().encode('{"a":1}'));
    expect([whole.mock.calls.length, share.bytes]).toEqual([1, 14]);
  });

  test.each(["7", "7000000"])("refuses a body of %s bytes that breaks off", async (length) => {
    const body = new ReadableStream({ pull: (controller) => controller.error(new Error("cut")) });
    const sent = request(body, { "content-length": length });
    await expect(readBodyBytes(sent, { maxBytes: 1e7 })).rejects.toMatchObject({
      code: "malformed_body",
      message: "Cannot read the request body: it ended early",
    });
  });

  test("refuses a body that breaks off", async () => {
    const body = new ReadableStream({ pull: (controller) => controller.error(new Error("reset")) });
    await expect(readJsonBody(request(body), { maxBytes: 10 })).rejects.toThrow("it ended early");
  });
});

describe("a compressed body", () => {
  const text = JSON.stringify({ text: "日本語 ".repeat(1000) });
  const read = (bytes: Uint8Array, coding: string, maxBytes = 20_000) =>
    readJsonBody(request(bytes as BodyInit, { "content-encoding": coding }), { maxBytes });
  const refused = (problem: string) => ({
    code: "malformed_body",
    message: expect.stringContaining(`Cannot read the request body: ${problem}`),
  });

  test.each([
    ["gzip", gzipSync],
    ["GZIP", gzipSync],
    ["x-gzip", gzipSync],
    ["deflate", deflateSync],
    ["identity", Buffer.from],
  ] as const)("of the coding %s is read", async (coding, code) => {
    expect(await read(code(text), coding)).toEqual(JSON.parse(text));
  });

  test.each(["br", "zstd", "compress", "gzip, gzip", "gzip;q=1", "constructor"])(
    "of the coding %s is refused and named, before it is read",
    async (coding) => {
      const { body, sent } = slowly("{}");
      const coded = request(body, { "content-encoding": coding });
      await expect(readJsonBody(coded, { maxBytes: 100 })).rejects.toMatchObject({
        code: "unsupported_coding",
        message:
          `Cannot read the request body: its Content-Encoding is "${coding}", and only ` +
          "gzip, deflate are read",
      });
      expect(sent()).toBeLessThanOrEqual(1);
    },
  );

  test.each([
    ["plain JSON", Buffer.from("{}")],
    ["half of it", gzipSync(text).subarray(0, 40)],
    ["another coding", deflateSync(text)],
    ["more behind it", Buffer.concat([gzipSync(text), Buffer.from("more")])],
    ["a wrong checksum", flipped(gzipSync(text))],
  ])("that is %s is refused", async (_, bytes) => {
    const problem = "it is not gzip, as its Content-Encoding says";
    await expect(read(bytes, "gzip")).rejects.toMatchObject(refused(problem));
  });

  test("that is nothing is an empty one", async () => {
    const whenEmpty = { none: true };
    expect(
      await readJsonBody(request("", { "content-encoding": "gzip" }), { maxBytes: 10 }, whenEmpty),
    ).toBe(whenEmpty);
    await expect(read(Buffer.from(""), "gzip")).rejects.toMatchObject(refused("it is empty"));
  });

  test("that breaks off says so", async () => {
    const body = new ReadableStream({ pull: (controller) => controller.error(new Error("reset")) });
    const broken = request(body, { "content-encoding": "gzip" });
    await expect(readJsonBody(broken, { maxBytes: 10 })).rejects.toThrow("it ended early");
  });

  test("holds no more than the limit, to the byte", async () => {
    const bytes = gzipSync(`"${"x".repeat(998)}"`);
    expect(await read(bytes, "gzip", 1000)).toHaveLength(998);
    await expect(read(bytes, "gzip", 999)).rejects.toMatchObject({ code: "body_too_large" });
  });

  test("of a few bytes that stand for a gigabyte is left at the limit", async () => {
    const decoded = vi.spyOn(ReadableStreamDefaultReader.prototype, "read");
    try {
      const bomb = gzipSync(Buffer.alloc(256 * 2 ** 20), { level: 9 });
      expect(bomb.length).toBeLessThan(2 ** 19);
      await expect(read(bomb, "gzip", 2 ** 20)).rejects.toThrow("larger than 1048576 bytes");
      // Pieces of some kilobytes: as many as fill the limit, not those of 256 MiB.
      expect(decoded.mock.calls.length).toBeGreaterThan(10);
      expect(decoded.mock.calls.length).toBeLessThan(200);
    } finally {
      decoded.mockRestore();
    }
  });

  test("itself beyond the limit is refused too, whatever it stands for", async () => {
    const empty = Buffer.concat(Array.from({ length: 100 }, () => gzipSync("")));
    await expect(read(empty, "gzip", 1000)).rejects.toMatchObject({ code: "body_too_large" });
  });
});

/** With one bit of the checksum changed. */
function flipped(bytes: Buffer): Buffer {
  bytes[bytes.length - 8]! ^= 1;
  return bytes;
}

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
