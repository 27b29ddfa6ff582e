// The clients of a campaign, in a thread of their own, so that what they do takes no time of the
// server's: hostile connections as they are scripted, beside them a good client that streams chats
// one after another, and one that asks for the server's health.

import { setMaxListeners } from "node:events";
import http from "node:http";
import net from "node:net";
import { parentPort, workerData } from "node:worker_threads";

/**
 * @typedef {import("./neighbours.ts").Connection} Connection
 * @typedef {import("./neighbours.ts").Script} Script
 */

const { port } = /** @type {{ port: number }} */ (workerData);

/**
 * @param {string} method
 * @param {string} path
 * @param {string} [body]
 * @returns {Promise<{ status: number | undefined, text: string }>} Status undefined where the
 * connection broke.
 */
function ask(method, path, body) {
  return new Promise((resolve) => {
    const headers = body === undefined ? {} : { "content-type": "application/json" };
    const options = { port, host: "127.0.0.1", method, path, headers, agent: false };
    const request = http.request(options);
    request.on("error", (error) => resolve({ status: undefined, text: String(error) }));
    request.on("response", (response) => {
      let text = "";
      response.setEncoding("utf8");
      response.on("data", (data) => {
        text += data;
      });
      response.on("error", (error) => resolve({ status: undefined, text: String(error) }));
      response.on("end", () => resolve({ status: response.statusCode, text }));
    });
    request.end(body);
  });
}

/**
 * One hostile connection; resolves when it has done its harm, or `over` is aborted.
 *
 * @param {Connection} connection
 * @param {AbortSignal} over
 * @returns {Promise<string>} How the answer begins; empty where none came.
 */
async function harm({ send, ending }, over) {
  const socket = net.connect({ port, host: "127.0.0.1", noDelay: true, allowHalfOpen: true });
  let head = "";
  const first = new Promise((resolve) => {
    socket.once("data", resolve);
    socket.once("close", resolve);
  });
  const closed = new Promise((resolve) => socket.once("close", resolve));
  const ended = new Promise((resolve) => socket.once("end", resolve));
  const stopped = new Promise((resolve) => {
    if (over.aborted) resolve(undefined);
    over.addEventListener("abort", resolve, { once: true });
  });
  socket.on("error", () => {});
  if (ending === "never read") socket.pause();
  else {
    socket.on("data", (data) => {
      if (head.length < 1000) head += data.toString("latin1");
    });
  }
  const gone = Promise.race([closed, stopped]);
  for (const { bytes, times = 1 } of send) {
    for (let i = 0; i < times && !socket.destroyed && !over.aborted; i++) {
      if (socket.write(bytes)) continue;
      await Promise.race([new Promise((resolve) => socket.once("drain", resolve)), gone]);
    }
  }
  switch (ending) {
    case "leave":
      await Promise.race([new Promise((resolve) => socket.write("", resolve)), gone]);
      break;
    case "leave at the first bytes":
      await Promise.race([first, gone]);
      break;
    case "close one half":
      socket.end();
      await Promise.race([ended, gone]);
      break;
    case "read":
      await Promise.race([ended, gone]);
      break;
    default:
      await gone;
  }
  if (send.length % 2 === 0) socket.destroy();
  else socket.resetAndDestroy();
  await closed;
  return head;
}

/** @param {Script} script */
async function run({ connections, atOnce, chat, chats }) {
  const over = new AbortController();
  setMaxListeners(0, over.signal);
  const answers = [];
  const health = [];
  /** @type {Record<string, number>} */
  const statuses = {};
  const stays = connections.filter(({ ending }) => STAYING.has(ending));
  const ends = connections.filter(({ ending }) => !STAYING.has(ending));
  /** @type {Record<string, string>} */
  const samples = {};
  const count = (/** @type {string} */ head) => {
    const status = /^HTTP\/1\.1 (\d{3})/.exec(head)?.[1] ?? "none";
    statuses[status] = (statuses[status] ?? 0) + 1;
    samples[status] ??= head;
  };
  const staying = stays.map((one) => harm(one, over.signal).then(count));
  let next = 0;
  const worker = async () => {
    while (next < ends.length) count(await harm(ends[next++], over.signal));
  };
  let isDone = false;
  const harming = Promise.all(Array.from({ length: atOnce }, worker)).then(() => {
    isDone = true;
  });
  const started = performance.now();
  let seconds = 0;
  const good = (async () => {
    while (!isDone || answers.length < chats) answers.push(await ask("POST", chat.path, chat.body));
    seconds = (performance.now() - started) / 1000;
    over.abort();
  })();
  const checking = (async () => {
    do health.push((await ask("GET", "/health")).status);
    while (!over.signal.aborted);
  })();
  await Promise.all([harming, good]);
  await Promise.all([...staying, checking]);
  // The last one: no client harms any more.
  const after = await ask("POST", chat.path, chat.body);
  return { answers, seconds, after, health, statuses, samples };
}

const STAYING = new Set(["stay", "never read"]);

parentPort?.on("message", async (/** @type {Script} */ script) => {
  parentPort?.postMessage(await run(script));
});
