/**
 * A server of the embedded model whose requests are all sent at once, as its awaits are watched.
 *
 * @module
 */
import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import type { Engine, LocalRequest } from "../../../src/engine/engine.ts";
import type { GrammarModel } from "../../../src/engine/grammar/grammar_service.ts";
import type { LoadOptions } from "../../../src/engine/load/load_options.ts";
import type { EngineStatus, GenerationEngine } from "../../../src/generation.ts";
import { PrometheusMetrics } from "../../../src/node/observe/prometheus.ts";
import { othersTurn } from "../../../src/turns.ts";
import { EMBEDDED_MODEL } from "../checkpoints/embedded_model.ts";
import { folderSource } from "../checkpoints/folder_source.ts";
import { device } from "../devices/gpu.ts";
import type { AwaitHook, WatchedModules, WatchedSources } from "./watched_awaits.ts";

/**
 * Method, path and body of a request; bytes are sent as gzip, texts as they are, in pieces. The method
 * `LIBRARY` asks the engine itself.
 */
export type Sent = readonly [
  method: string,
  path: string,
  body?: object | string | Uint8Array<ArrayBuffer> | undefined,
  manner?: Manner,
];

/** What a client does with the answer. Default: it reads it. */
export interface Manner {
  /** Sent behind it. */
  readonly behind?: readonly Sent[];
  /** It reads the first piece, and the rest once the engine is at rest; or it leaves then. */
  readonly reads?: "slowly" | "one piece";
}

/** What an await fails with, the first time that it is passed in a run. */
export interface Fault {
  readonly site: string;
  readonly error: (modules: WatchedModules) => Error;
}

export interface Scenario {
  readonly name: string;
  readonly options: Partial<LoadOptions>;
  /** Of the model. Default: the embedded one. */
  readonly folder?: string;
  /** Whether the engine, its texts and its grammars are each behind a port. Default false. */
  readonly isRemote?: boolean;
  /** Whether it is left to the long campaign. Default false. */
  readonly isLong?: boolean;
  /** What fails in every run. Default: nothing does. */
  readonly faults?: readonly Fault[];
  /** Requests that end with an error in every run. Default: none does. */
  readonly refused?: readonly string[];
  /** Whether it is not the same at each run how often sites are passed: then each fails the first time. */
  readonly varies?: boolean;
  /** Sites that it is about, where others are tried elsewhere. Default: all. */
  readonly only?: readonly string[];
  /** Whether the clock goes on by more than a slice at each look. Default false. */
  readonly isSlow?: boolean;
  /** By name; each wave is sent at once, behind the end of the one before. */
  readonly waves: readonly Readonly<Record<string, Sent>>[];
}

/** In place of the status of an answer that breaks off. */
export const BROKEN = 0;

/** What an answer tells, without its times and ids. */
export interface Told {
  readonly status: number;
  readonly text: string;
}

export interface Leaving {
  readonly name: string;
  readonly signal: AbortSignal;
}

export interface ServedEngine {
  /** Errors that were the server's own fault. */
  readonly errors: unknown[];
  status(): EngineStatus;
  /**
   * Sends all requests.
   *
   * @param hook Of the awaits until they are answered.
   * @param leaving Whose client leaves when the signal says so.
   * @returns Their answers, by name.
   */
  run(hook?: AwaitHook, leaving?: Leaving): Promise<Map<string, Told>>;
  close(): Promise<void>;
}

export async function openServed(
  { modules, setHook }: WatchedSources,
  { options, folder: model = EMBEDDED_MODEL, isRemote = false, waves, faults = [], only }: Scenario,
): Promise<ServedEngine> {
  const { Engine } = modules["engine/engine"];
  const given: Partial<LoadOptions> = isRemote ? { ...options, ...services(modules) } : options;
  const engine = await Engine.load(folderSource(model), {
    ...{ device, triesInvariance: false },
    ...given,
  } as LoadOptions);
  const served: GenerationEngine = isRemote ? await behindPort(modules, engine) : engine;
  const errors: unknown[] = [];
  const folder = mkdtempSync(join(tmpdir(), "wisp-profiles-"));
  const { ProfileFiles } = modules["node/observe/profile_files"];
  const metrics = new PrometheusMetrics(served, { modelName: "m" });
  const app = modules["server/app"].createApp(served, {
    toolCallParser: "qwen25",
    metrics,
    reportError: (error) => errors.push(error),
    expertRecords: new modules["node/observe/expert_record_files"].ExpertRecordFiles(
      served,
      folder,
    ),
    profiles: new ProfileFiles(served, { folder, onError: (error) => errors.push(error) }),
  });
  const askAll = async (sent: Sent, signal?: AbortSignal) => {
    const told = [await ask(sent, signal)];
    for (const next of sent[3]?.behind ?? []) told.push(await ask(next, signal));
    const statuses = told.map(({ status }) => status);
    // What comes behind a failure may fail for it alone, as a profile that ended with its step.
    const isBroken = statuses.length > 1 && statuses.some((one) => one !== 200);
    const status = isBroken ? BROKEN : statuses[0]!;
    return { status, text: told.map(({ text }) => text).join("") };
  };
  const ask = async (sent: Sent, signal?: AbortSignal): Promise<Told> => {
    const [method, path, body, { reads } = {}] = sent;
    if (method === "LIBRARY") return askEngine(engine, body as LocalRequest, signal);
    // It is to wait until the others are answered.
    if (path.includes("?timeout=")) await started(engine);
    try {
      const asked = { method, ...bodyOf(body), ...(signal && { signal }) };
      const response = await app.request(path, asked);
      const text = reads === undefined ? response.text() : readBy(reads, response, settle);
      return { status: response.status, text: withoutTimes(await text, path) };
    } catch (error) {
      // The connection breaks, where that comes behind the first bytes.
      return { status: BROKEN, text: String(error) };
    }
  };
  const isAtRest = () => {
    const { usedTokens, runningRequests, queuedRequests, healthy } = engine.status();
    return !healthy || usedTokens + runningRequests + queuedRequests === 0;
  };
  const settle = async () => {
    while (!isAtRest()) await pause(1);
    // What is stored behind an answer belongs to it where a scenario is about that.
    if (only !== undefined) await pause(STORING_MS);
  };
  return {
    errors,
    status: () => engine.status(),
    async run(hook, leaving) {
      const told = new Map<string, Told>();
      const watching = withFaults(faults, modules, hook);
      await engine.flushCache({ stored: true });
      for (const wave of waves) {
        const one = async ([name, sent]: [string, Sent]) => {
          told.set(name, await askAll(sent, leaving?.name === name ? leaving.signal : undefined));
        };
        setHook(watching);
        await Promise.all(Object.entries(wave).map(one));
        await settle();
        setHook(undefined);
        await engine.flushCache();
      }
      return told;
    },
    async close() {
      await engine.close();
      rmSync(folder, { recursive: true, force: true });
    },
  };
}

/** The same hook, where some awaits fail in any case. */
function withFaults(
  faults: readonly Fault[],
  modules: WatchedModules,
  hook: AwaitHook = (_, awaited) => awaited,
): AwaitHook {
  const left = new Map(faults.map(({ site, error }) => [`src/${site}`, error]));
  return (site, awaited) => {
    const error = left.get(site);
    if (error === undefined) return hook(site, awaited);
    left.delete(site);
    return Promise.resolve(awaited).then(() => {
      throw error(modules);
    });
  };
}

/** Longer than it takes to store a block in memory. */
const STORING_MS = 50;

const pause = (milliseconds: number) =>
  new Promise<void>((resolve) => setTimeout(resolve, milliseconds));

const JSON_TYPE = { "content-type": "application/json" };
const GZIP = { ...JSON_TYPE, "content-encoding": "gzip" };

function bodyOf(body: Sent[2]): RequestInit & { readonly duplex?: "half" } {
  if (body === undefined) return {};
  if (body instanceof Uint8Array) return { headers: GZIP, body };
  if (typeof body !== "string") return { headers: JSON_TYPE, body: JSON.stringify(body) };
  const bytes = new TextEncoder().encode(body);
  const middle = bytes.length >> 1;
  const pieces = [bytes.slice(0, middle), bytes.slice(middle)];
  const stream = new ReadableStream<Uint8Array<ArrayBuffer>>({
    pull(controller) {
      const piece = pieces.shift();
      if (piece === undefined) controller.close();
      else controller.enqueue(piece);
    },
  });
  return { headers: JSON_TYPE, body: stream, duplex: "half" };
}

async function askEngine(
  engine: Engine,
  request: LocalRequest,
  signal?: AbortSignal,
): Promise<Told> {
  try {
    const chunks = [];
    for await (const chunk of engine.generate({ ...request, ...(signal && { signal }) })) {
      chunks.push(chunk);
    }
    return { status: 200, text: chunks.map(({ text }) => text).join("") };
  } catch (error) {
    return { status: BROKEN, text: String(error) };
  }
}

async function readBy(
  reads: NonNullable<Manner["reads"]>,
  response: Response,
  settle: () => Promise<void>,
): Promise<string> {
  const reader = response.body!.getReader();
  const decoder = new TextDecoder();
  let text = "";
  for (;;) {
    const { done, value } = await reader.read();
    if (done) return text;
    if (reads === "one piece") {
      await reader.cancel();
      return "one piece";
    }
    text += decoder.decode(value, { stream: true });
    await settle();
  }
}

async function started(engine: GenerationEngine): Promise<void> {
  for (let i = 0; i < 50 && engine.status().runningRequests === 0; i++) {
    await new Promise((resolve) => setTimeout(resolve, 1));
  }
}

/** Times and ids; events of several choices come in the order in which they were ready. */
function withoutTimes(text: string, path: string): string {
  // Counts and times are other ones each time.
  if (path === "/metrics") return text.replaceAll(/ \S+$/gm, "");
  const times =
    /"(id|item_id|created|created_at|modified_at|completed_at|total_duration|prompt_eval_duration|eval_duration|e2e_latency|queue_time|request_time|cached_tokens|spec_[a-z_]+)":("[^"]*"|[\d.e-]+)/g;
  const files = /(wisp-|expert_distribution_recorder_)[\w.-]+\.(trace|json)/g;
  const same = text.replace(times, "").replace(files, "file");
  return same.startsWith("data: ") ? same.split("\n\n").sort().join("\n\n") : same;
}

/** Services of texts and grammars whose other ends are in this thread too, a turn away. */
function services(modules: WatchedModules): Partial<LoadOptions> {
  const { RemoteTextService } = modules["engine/text/remote_text_service"];
  const { serveText } = modules["engine/text/serve_text"];
  const { readTextFiles } = modules["engine/text/text_files"];
  const { RemoteGrammarService } = modules["engine/grammar/remote_grammar_service"];
  const { serveGrammars } = modules["engine/grammar/serve_grammars"];
  return {
    textService: async ({ source, options }) =>
      RemoteTextService.open({
        start: ({ onAnswer, onEnd }) => {
          const take = serveText((answer) => setImmediate(onAnswer, structuredClone(answer)));
          const send = (question: Parameters<typeof take>[0]) => {
            setImmediate(() => {
              // What a thread does not catch ends it.
              take(structuredClone(question)).catch((error) => onEnd(String(error), false));
            });
          };
          return { send, terminate: () => {} };
        },
        files: await readTextFiles(source),
        options,
      }),
    grammarService: (model: GrammarModel) =>
      new RemoteGrammarService(model, ({ onAnswers }) => {
        const take = serveGrammars({
          othersTurn,
          send: (answers) => setImmediate(onAnswers, structuredClone(answers)),
        });
        const send = (calls: Parameters<typeof take>[0]) => {
          setImmediate(take, structuredClone(calls));
        };
        return { send, terminate: () => {} };
      }),
  };
}

async function behindPort(
  modules: WatchedModules,
  engine: GenerationEngine,
): Promise<GenerationEngine> {
  const { messagePort } = modules["engine/remote/port"];
  const { port1, port2 } = new MessageChannel();
  modules["engine/remote/serve_engine"].serveEngine(engine, messagePort(port1));
  return modules["engine/remote/remote_engine"].RemoteEngine.connect(messagePort(port2));
}
