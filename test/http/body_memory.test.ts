/** However the reading of a body ends, its memory is free again. */
import { gzipSync } from "node:zlib";
import { describe, expect, test } from "vitest";
import { CapacityError } from "../../src/errors.ts";
import { BodyMemory } from "../../src/http/body_memory.ts";
import { readJsonBody } from "../../src/http/read_body.ts";
import { until } from "../support/until.ts";

const MiB = 2 ** 20;

interface Sent {
  readonly request: Request;
  send(bytes: Uint8Array | string): void;
  end(): void;
  fail(): void;
  leave(): void;
}

/** A request whose body comes when the test says so. */
function request(headers: Readonly<Record<string, string>> = {}): Sent {
  const leaving = new AbortController();
  let controller!: ReadableStreamDefaultController<Uint8Array>;
  const body = new ReadableStream<Uint8Array>({
    start: (own) => {
      controller = own;
    },
  });
  const init = { method: "POST", body, headers, signal: leaving.signal, duplex: "half" };
  return {
    request: new Request("http://wisp.test/", init as RequestInit),
    send: (bytes) =>
      controller.enqueue(typeof bytes === "string" ? new TextEncoder().encode(bytes) : bytes),
    end: () => controller.close(),
    fail: () => controller.error(new Error("reset")),
    leave: () => leaving.abort(),
  };
}

function whole(body: Uint8Array | string, headers?: Readonly<Record<string, string>>): Request {
  const sent = request(headers);
  sent.send(body);
  sent.end();
  return sent.request;
}

function read(memory: BodyMemory, of: Request, maxBytes = 64 * MiB): Promise<unknown> {
  return readJsonBody(of, { maxBytes, share: memory.of(of) });
}

describe("what is counted of a body", () => {
  test("is what has come, twice, and what its values take once they are there", async () => {
    const memory = new BodyMemory(MiB);
    const sent = request();
    const value = read(memory, sent.request);
    sent.send(`["${"a".repeat(100)}`);
    await until(() => expect(memory.used).toBe(2 * 102));
    sent.send('"]');
    sent.end();
    expect(await value).toEqual(["a".repeat(100)]);
    // A list, a string, its characters.
    expect(memory.used).toBe(64 + 24 + 200);
    memory.answered(sent.request);
    expect(memory.used).toBe(0);
  });

  test("goes on with an answer that goes on, until that or its client ends it", async () => {
    const memory = new BodyMemory(MiB);
    for (const end of ["answer", "client"]) {
      const sent = request();
      sent.send('"abc"');
      sent.end();
      await read(memory, sent.request);
      const release = memory.of(sent.request).keep();
      memory.answered(sent.request);
      expect(memory.used).toBe(24 + 6);
      if (end === "answer") release();
      else sent.leave();
      expect(memory.used).toBe(0);
      release();
      expect(memory.used).toBe(0);
    }
  });
});

describe("a body that finds no room", () => {
  const full = async () => {
    const memory = new BodyMemory(MiB);
    const other = request();
    void read(memory, other.request).catch(() => {});
    other.send("x".repeat(MiB / 4));
    await until(() => expect(memory.used).toBe(MiB / 2));
    return memory;
  };

  test("is refused by its length before it is read", async () => {
    const memory = await full();
    const sent = request({ "content-length": String(MiB / 4 + 1) });
    await expect(read(memory, sent.request)).rejects.toThrow(CapacityError);
    expect(sent.request.body!.locked).toBe(false);
    memory.answered(sent.request);
    expect(memory.used).toBe(MiB / 2);
  });

  test("takes none by saying how long it will be", async () => {
    const memory = await full();
    const sent = request({ "content-length": String(MiB / 4) });
    const reading = read(memory, sent.request);
    sent.send("[");
    await until(() => expect(memory.used).toBe(MiB / 2 + 2));
    sent.fail();
    await expect(reading).rejects.toThrow("it ended early");
  });

  test("is refused once too much of it has come, and read no further", async () => {
    const memory = await full();
    const sent = request();
    const reading = read(memory, sent.request);
    for (let i = 0; i < 5; i++) sent.send("x".repeat(MiB / 16));
    await expect(reading).rejects.toMatchObject({
      code: "capacity_exceeded",
      resource: "memory for requests",
      limit: MiB,
    });
    memory.answered(sent.request);
    expect(memory.used).toBe(MiB / 2);
  });

  test("is refused for what it decodes to, while that is decoded", async () => {
    const memory = await full();
    const bomb = gzipSync(Buffer.alloc(32 * MiB));
    const sent = whole(bomb, { "content-encoding": "gzip" });
    await expect(read(memory, sent)).rejects.toThrow(CapacityError);
    memory.answered(sent);
    expect(memory.used).toBe(MiB / 2);
  });

  test("is refused for what its values take, before they are made", async () => {
    const memory = await full();
    const sent = whole(`[${"{},".repeat(10_000)}0]`);
    await expect(read(memory, sent)).rejects.toThrow(CapacityError);
    memory.answered(sent);
    expect(memory.used).toBe(MiB / 2);
  });

  test("and never would is too large", async () => {
    const memory = new BodyMemory(MiB);
    for (const sent of [
      whole(`[${"{},".repeat(10_000)}0]`),
      whole("x".repeat(MiB)),
      request({ "content-length": String(MiB) }).request,
    ]) {
      await expect(read(memory, sent)).rejects.toMatchObject({ code: "body_too_large" });
      memory.answered(sent);
      expect(memory.used).toBe(0);
    }
  });
});

describe("nothing is left of a body that", () => {
  const long = `[${'"word",'.repeat(100_000)}0]`;

  test.each<[string, (sent: Sent) => void]>([
    ["breaks off", (sent) => sent.fail()],
    ["is no JSON", (sent) => sent.end()],
    [
      "is no JSON far behind",
      (sent) => {
        sent.send(`${long}]]`);
        sent.end();
      },
    ],
  ])("%s", async (_, end) => {
    const memory = new BodyMemory(64 * MiB);
    const sent = request();
    const reading = read(memory, sent.request);
    sent.send("[");
    await until(() => expect(memory.used).toBe(2));
    end(sent);
    await expect(reading).rejects.toMatchObject({ code: "malformed_body" });
    memory.answered(sent.request);
    expect(memory.used).toBe(0);
  });

  test("a client leaves while it is parsed", async () => {
    const memory = new BodyMemory(64 * MiB);
    const sent = request();
    sent.send(long);
    sent.end();
    const reading = read(memory, sent.request);
    // More than its bytes: its first values are there.
    await until(() => expect(memory.used).toBeGreaterThan(2 * long.length + 1000));
    sent.leave();
    await expect(reading).rejects.toMatchObject({ name: "AbortError" });
    memory.answered(sent.request);
    expect(memory.used).toBe(0);
  });
});

test("large bodies are parsed one after the other, and one that fails holds up none", async () => {
  const memory = new BodyMemory(512 * MiB);
  const items = (text: string) => `[${`${text},`.repeat(100_000)}0]`;
  const texts = [items("[]"), `${items("1.25")}]`, items('"a"')];
  const values = texts.map((text) => read(memory, whole(text)));
  const ended: number[] = [];
  values.forEach((value, i) => {
    const end = () => void ended.push(i);
    value.then(end, end);
  });
  const results = await Promise.allSettled(values);
  expect(results.map(({ status }) => status)).toEqual(["fulfilled", "rejected", "fulfilled"]);
  expect(ended).toEqual([0, 1, 2]);
});
