// A page that answers prompts on its visitor's GPU. Run it: npm run demo
// Another model: ?model=https://example.com/folder/ (a checkpoint on a server with range requests)

import { Engine, type LoadingProgress } from "wisp-llm";
import { openDevice, urlSource } from "wisp-llm/browser";

const status = document.querySelector("#status")!;
const form = document.querySelector<HTMLFormElement>("#form")!;
const prompt = document.querySelector<HTMLInputElement>("#prompt")!;
const ask = document.querySelector<HTMLButtonElement>("#ask")!;
const answer = document.querySelector("#answer")!;

async function load(): Promise<Engine> {
  const model = new URLSearchParams(location.search).get("model") ?? "../tiny-deepseek-v3/";
  const device = await openDevice();
  return Engine.load(await urlSource(model), {
    device,
    contextLength: 512,
    maxRunningRequests: 1,
    onProgress: showProgress,
  });
}

const PHASES = { adapter: "Testing", weights: "Loading", pipelines: "Compiling" } as const;

function showProgress({ phase, done, total }: LoadingProgress): void {
  status.textContent = `${PHASES[phase]} ${phase}: ${Math.floor((100 * done) / total)} %`;
}

async function reply(engine: Engine, content: string): Promise<void> {
  answer.textContent = "";
  ask.disabled = true;
  try {
    const messages = [{ role: "user", content }];
    for await (const { text } of engine.generate({ messages, sampling: { temperature: 0 } })) {
      answer.textContent += text;
    }
    status.textContent = "Ready";
  } finally {
    ask.disabled = false;
  }
}

/** Shows what went wrong: no WebGPU, no adapter, no model at that address, no memory. */
function showError(error: unknown): void {
  status.textContent = error instanceof Error ? error.message : String(error);
}

try {
  const engine = await load();
  form.addEventListener("submit", (event) => {
    event.preventDefault();
    status.textContent = "Answering";
    reply(engine, prompt.value).catch(showError);
  });
  ask.disabled = false;
  status.textContent = "Ready";
} catch (error) {
  showError(error);
}
