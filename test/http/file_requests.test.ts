import { afterEach, describe, expect, test, vi } from "vitest";
import { type FileReply, FileRequests } from "../../src/http/file_requests.ts";
import {
  DownloadError,
  PassingError,
  readRetryAfter,
  withRetries,
} from "../../src/http/retries.ts";

const forever = () => new Promise<never>(() => {});
const request = { subject: "m", path: "/x", expected: [200] };

afterEach(() => {
  vi.unstubAllGlobals();
});

function http(signal = new AbortController().signal): FileRequests {
  return new FileRequests({ endpoint: "http://hub", signal, idleTimeout: 20 });
}

async function drain(reply: FileReply): Promise<void> {
  for await (const _ of reply.chunks());
}

describe.each([
  ["a request", forever],
  ["a body", async () => new Response(new ReadableStream({ pull: forever }))],
])("%s that never settles, whatever is aborted", (_, fetch) => {
  test("is given up after a while", async () => {
    vi.stubGlobal("fetch", fetch);
    const exchange = http().exchange(request, drain);
    await expect(exchange).rejects.toThrow(PassingError);
    await expect(exchange).rejects.toThrow(/^nothing came for 0 s$/);
  });

  test("is given up with the signal's reason", async () => {
    vi.stubGlobal("fetch", fetch);
    const ending = new AbortController();
    const exchange = http(ending.signal).exchange(request, drain);
    const reason = new Error("enough");
    setTimeout(() => ending.abort(reason), 5);
    await expect(exchange).rejects.toBe(reason);
  });
});

test("a certificate that is not valid is no reason to try again", async () => {
  const code = "DEPTH_ZERO_SELF_SIGNED_CERT";
  vi.stubGlobal("fetch", async () => {
    throw new TypeError("fetch failed", {
      cause: Object.assign(new Error("self-signed"), { code }),
    });
  });
  const exchange = http().exchange(request, drain);
  await expect(exchange).rejects.toThrow(DownloadError);
  await expect(exchange).rejects.toThrow(
    `Cannot download m: http://hub cannot be reached (${code})`,
  );
});

test.each([
  ["https://hub", "http://other/x", false],
  ["https://hub", "https://other/x", true],
  ["http://hub", "https://other/x", true],
  ["http://hub", "http://other/x", true],
  ["http://hub", "data:,x", false],
])("a redirect from %s to %s is followed: %s", async (endpoint, location, follows) => {
  const sent: string[] = [];
  vi.stubGlobal("fetch", async (url: URL) => {
    sent.push(url.href);
    if (sent.length > 1) return new Response("x");
    return new Response(null, { status: 302, headers: { location } });
  });
  const { signal } = new AbortController();
  const client = new FileRequests({
    endpoint,
    headers: { authorization: "Bearer t" },
    signal,
    idleTimeout: 1000,
  });
  const exchange = client.exchange(request, drain);
  if (follows) await exchange;
  else await expect(exchange).rejects.toThrow("which is not safe");
  expect(sent).toHaveLength(follows ? 2 : 1);
});

describe("withRetries", () => {
  const { signal } = new AbortController();
  const policy = { retries: 4, backoff: 4, longestWait: 20, progressBytes: 10 };

  test("waits twice as long each time, up to the longest wait", async () => {
    const notes: string[] = [];
    const waits: number[] = [];
    let last = performance.now();
    const work = async () => {
      waits.push(performance.now() - last);
      last = performance.now();
      throw new PassingError("busy", waits.length === 1 ? 1e9 : undefined);
    };
    const options = { subject: "m", policy, signal, onRetry: (note: string) => notes.push(note) };
    await expect(withRetries(work, options)).rejects.toThrow(
      "Cannot download m: busy, after 5 tries",
    );
    expect(notes).toHaveLength(4);
    // Node's timers may fire a millisecond early.
    for (const [i, least] of [0, 20, 6, 12, 20].entries()) {
      expect(waits[i]).toBeGreaterThanOrEqual(least === 0 ? 0 : least - 1.5);
    }
    expect(Math.max(...waits)).toBeLessThan(5000);
  });

  test("a position that goes up and down is no progress", async () => {
    let tries = 0;
    const work = async () => {
      tries += 1;
      throw new PassingError("again");
    };
    const options = { subject: "m", policy, signal, position: () => (tries % 2) * 10 };
    await expect(withRetries(work, options)).rejects.toThrow("again");
    expect(tries).toBeLessThanOrEqual(2 * (policy.retries + 1));
  });

  test("other errors pass through", async () => {
    const error = new Error("disk full");
    await expect(
      withRetries(() => Promise.reject(error), { subject: "m", policy, signal }),
    ).rejects.toBe(error);
  });
});

test.each([
  [null, undefined],
  ["7", 7000],
  ["soon", undefined],
  [new Date(5000).toUTCString(), 4000],
  [new Date(500).toUTCString(), 0],
])("readRetryAfter(%s) is %s", (header, milliseconds) => {
  expect(readRetryAfter(header, 1000)).toBe(milliseconds);
});
