import { expect, test } from "vitest";
import { type RunningServer, serve } from "../../../src/node/serve/http.ts";
import { until } from "../../support/until.ts";

const LOCAL = { host: "127.0.0.1", port: 0 };

/** A promise and what settles it. */
function deferred<T = void>() {
  let resolve!: (value: T) => void;
  const promise = new Promise<T>((done) => {
    resolve = done;
  });
  return { promise, resolve };
}

async function withServer(
  fetchApp: (request: Request) => Response | Promise<Response>,
  use: (server: RunningServer) => Promise<void>,
): Promise<void> {
  const server = await serve({ fetch: fetchApp }, LOCAL);
  try {
    await use(server);
  } finally {
    await server.close();
  }
}

test("serve answers requests on a free port", async () => {
  const echo = async (request: Request) =>
    new Response(`${request.method} ${new URL(request.url).pathname} ${await request.text()}`);
  await withServer(echo, async ({ url }) => {
    const response = await fetch(`${url}/path`, { method: "POST", body: "text" });
    expect(await response.text()).toBe("POST /path text");
  });
});

test("serve hands on the chunks of a stream as they come", async () => {
  const second = deferred();
  const app = () => {
    let count = 0;
    const body = new ReadableStream({
      async pull(controller) {
        if (count === 1) await second.promise;
        controller.enqueue(new TextEncoder().encode(`${count}`));
        if (count++ === 1) controller.close();
      },
    });
    return new Response(body);
  };
  await withServer(app, async ({ url }) => {
    const reader = (await fetch(url)).body!.getReader();
    const { value } = await reader.read();
    expect(new TextDecoder().decode(value)).toBe("0");
    second.resolve();
    expect(new TextDecoder().decode((await reader.read()).value)).toBe("1");
  });
});

test("serve aborts the request's signal when the client leaves before the answer", async () => {
  const arrived = deferred();
  const aborted = deferred();
  const app = (request: Request) => {
    arrived.resolve();
    return new Promise<Response>((resolve) => {
      request.signal.addEventListener("abort", () => {
        aborted.resolve();
        resolve(new Response("late"));
      });
    });
  };
  await withServer(app, async ({ url }) => {
    const client = new AbortController();
    const answer = fetch(url, { method: "POST", body: "{}", signal: client.signal });
    await arrived.promise;
    client.abort();
    await expect(answer).rejects.toThrow("aborted");
    await aborted.promise;
  });
});

test("serve cancels the body when the client leaves in the middle of a stream", async () => {
  const cancelled = deferred();
  const app = () =>
    new Response(
      new ReadableStream({
        start: (controller) => controller.enqueue(new TextEncoder().encode("first")),
        cancel: () => cancelled.resolve(),
      }),
    );
  await withServer(app, async ({ url }) => {
    const client = new AbortController();
    const response = await fetch(url, { signal: client.signal });
    await response.body!.getReader().read();
    client.abort();
    await cancelled.promise;
  });
});

test("close refuses new connections and waits for the running request", async () => {
  const arrived = deferred();
  const answer = deferred();
  const app = async () => {
    arrived.resolve();
    await answer.promise;
    return new Response("done");
  };
  const server = await serve({ fetch: app }, LOCAL);
  const running = fetch(server.url);
  await arrived.promise;
  let closed = false;
  const closing = server.close().then(() => {
    closed = true;
  });
  await expect(fetch(server.url)).rejects.toThrow();
  expect(closed).toBe(false);
  answer.resolve();
  expect(await (await running).text()).toBe("done");
  await closing;
});

test("settle waits for the requests that run when it is called, not for later ones", async () => {
  const answers = [deferred(), deferred()];
  let arrived = 0;
  const app = async () => {
    const { promise } = answers[arrived++]!;
    await promise;
    return new Response("done");
  };
  await withServer(app, async ({ url, settle }) => {
    const first = fetch(url);
    await until(() => expect(arrived).toBe(1));
    const settled = settle(60_000);
    const second = fetch(url);
    await until(() => expect(arrived).toBe(2));
    expect(await settle(1)).toBe(false);
    answers[0]!.resolve();
    expect(await settled).toBe(true);
    answers[1]!.resolve();
    expect(await (await second).text()).toBe("done");
    expect((await first).status).toBe(200);
    expect(await settle(0)).toBe(true);
  });
});

test("close cuts what still runs after its grace", async () => {
  const arrived = deferred();
  const app = () => {
    arrived.resolve();
    return new Promise<Response>(() => {});
  };
  const server = await serve({ fetch: app }, LOCAL);
  const running = fetch(server.url);
  running.catch(() => {});
  await arrived.promise;
  await server.close(10);
  await expect(running).rejects.toThrow();
});

test("serve says which address cannot be used, and why", async () => {
  await withServer(
    () => new Response(),
    async ({ url }) => {
      const port = Number(new URL(url).port);
      await expect(serve({ fetch: () => new Response() }, { ...LOCAL, port })).rejects.toThrow(
        `Cannot listen on 127.0.0.1:${port}: the port is in use`,
      );
    },
  );
});
