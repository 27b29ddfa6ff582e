/**
 * The switch that lets other pages of this origin use the engine, and how they do.
 *
 * @module
 */
import { parsersOf } from "wisp-llm";
import { type LocalEndpoint, startLocalEndpoint, type WorkerEngine } from "wisp-llm/browser";
import { codeBlock } from "../chat/markdown.ts";
import { announce } from "./announce.ts";
import { showError } from "./banner.ts";
import { element, fill } from "./dom.ts";

export interface ServedModel {
  readonly engine: WorkerEngine;
  readonly name: string;
}

export class EndpointSwitch {
  readonly element: HTMLElement;
  readonly #switch: HTMLButtonElement;
  readonly #details = element("div", { class: "endpoint-use" });
  #model: ServedModel | undefined;
  #endpoint: LocalEndpoint | undefined;

  constructor() {
    this.#switch = element("button", {
      type: "button",
      role: "switch",
      class: "switch",
      "aria-labelledby": "endpoint-label",
      onclick: () => void this.#toggle().catch(showError),
    });
    this.element = element(
      "section",
      { class: "endpoint" },
      element(
        "div",
        { class: "switch-row" },
        element("span", { id: "endpoint-label" }, "Serve to this origin"),
        this.#switch,
      ),
      element(
        "p",
        { class: "hint" },
        "Other pages at this address can use the model like OpenAI's API. Requests stay in the browser.",
      ),
      this.#details,
    );
    this.#show();
  }

  /** The model that can be served from now on; undefined takes it away. */
  async use(model: ServedModel | undefined): Promise<void> {
    const before = this.#endpoint;
    this.#endpoint = undefined;
    this.#model = model;
    this.#show();
    await before?.close();
  }

  async #toggle(): Promise<void> {
    const model = this.#model;
    if (model === undefined) return;
    if (this.#endpoint !== undefined) {
      await this.use(model);
      announce("The local endpoint is closed");
      return;
    }
    this.#switch.disabled = true;
    try {
      const { toolCalls, reasoning } = parsersOf(model.engine.model.family);
      const endpoint = await startLocalEndpoint(model.engine, {
        servedModelName: model.name,
        cacheReport: true,
        toolCallParser: toolCalls,
        reasoningParser: reasoning,
      });
      // The model may have gone while the service worker started.
      if (this.#model === model) this.#endpoint = endpoint;
      else await endpoint.close();
      announce(`Served at ${endpoint.baseURL}`);
    } finally {
      this.#show();
    }
  }

  #show(): void {
    const { baseURL } = this.#endpoint ?? {};
    this.#switch.disabled = this.#model === undefined;
    this.#switch.setAttribute("aria-checked", String(baseURL !== undefined));
    this.#details.hidden = baseURL === undefined;
    if (baseURL === undefined) return;
    fill(this.#details, codeBlock(baseURL, "address"), codeBlock(snippet(baseURL), "js"));
  }
}

/** Runs in the console of any page of this origin, and in programs with OpenAI's client. */
function snippet(baseURL: string): string {
  return `import OpenAI from "openai";

const client = new OpenAI({
  baseURL: "${baseURL}",
  apiKey: "none",
  dangerouslyAllowBrowser: true, // the key is none
});
const { choices } = await client.chat.completions.create({
  model: "default",
  messages: [{ role: "user", content: "Hello!" }],
});
console.log(choices[0].message.content);`;
}
