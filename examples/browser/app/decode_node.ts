/**
 * The switch that lends the visitor's GPU to a router of prefill and decode servers, and what arrives
 * meanwhile.
 *
 * @module
 */
import { parsersOf } from "wisp-llm";
import { type ArrivedPages, type DecodeNode, joinAsDecodeNode } from "wisp-llm/browser";
import { announce } from "./announce.ts";
import { showError } from "./banner.ts";
import { element, setText } from "./dom.ts";
import type { ServedModel } from "./endpoint.ts";
import { formatBytes, formatCount } from "./format.ts";

export class DecodeNodeSwitch {
  readonly element: HTMLElement;
  readonly #switch: HTMLButtonElement;
  readonly #url = element("input", { type: "url", placeholder: "http://127.0.0.1:30000" });
  readonly #token = element("input", { type: "text", autocomplete: "off" });
  readonly #arrived = element("p", { class: "hint", "data-figure": "arrived" });
  #model: ServedModel | undefined;
  #node: DecodeNode | undefined;
  #pages: ArrivedPages | undefined;
  #running = 0;

  constructor() {
    this.#switch = element("button", {
      type: "button",
      role: "switch",
      class: "switch",
      "aria-labelledby": "node-label",
      onclick: () => void this.#toggle().catch(showError),
    });
    const label = element("span", { id: "node-label" }, "Answer for a router");
    this.element = element(
      "section",
      { class: "endpoint" },
      element("div", { class: "switch-row" }, label, this.#switch),
      element(
        "p",
        { class: "hint" },
        "Servers compute prompts, this page answers them. The router gives it a token, which its operator hands out.",
      ),
      element("label", {}, "Router", this.#url),
      element("label", {}, "Token", this.#token),
      this.#arrived,
    );
    this.#show();
  }

  /** The model that may answer from now on; undefined takes it away. */
  async use(model: ServedModel | undefined): Promise<void> {
    const before = this.#node;
    this.#node = undefined;
    this.#model = model;
    this.#show();
    await before?.leave({ now: true });
  }

  /** More pages have come. */
  arrive(pages: ArrivedPages): void {
    this.#pages = pages;
    this.#show();
  }

  async #toggle(): Promise<void> {
    const model = this.#model;
    if (model === undefined) return;
    if (this.#node !== undefined) {
      await this.use(model);
      announce("This page answers for no router any more");
      return;
    }
    this.#switch.disabled = true;
    try {
      const { toolCalls, reasoning } = parsersOf(model.engine.model.family);
      const node = await joinAsDecodeNode(model.engine, {
        url: this.#url.value,
        token: this.#token.value.trim(),
        ...(toolCalls !== undefined && { toolCallParser: toolCalls }),
        ...(reasoning !== undefined && { reasoningParser: reasoning }),
        onRequests: (running) => {
          this.#running = running;
          this.#show();
        },
      });
      void node.ended.then((reason) => this.#lose(node, reason));
      // The model may have gone meanwhile.
      if (this.#model === model) this.#node = node;
      else await node.leave({ now: true });
      announce("This page answers for the router");
    } finally {
      this.#show();
    }
  }

  #lose(node: DecodeNode, reason: string): void {
    if (this.#node !== node) return;
    this.#node = undefined;
    this.#show();
    announce(`This page answers for the router no more: ${reason}`);
  }

  #show(): void {
    const isNode = this.#node !== undefined;
    this.#switch.disabled = this.#model === undefined;
    this.#switch.setAttribute("aria-checked", String(isNode));
    for (const input of [this.#url, this.#token]) input.disabled = isNode;
    this.#arrived.hidden = !isNode;
    const { pages = 0, bytes: size = 0, prompts = 0 } = this.#pages ?? {};
    const arrived = `${formatCount(pages, "page")} of ${formatCount(prompts, "prompt")} arrived (${formatBytes(size)})`;
    setText(this.#arrived, `${arrived}; ${formatCount(this.#running, "answer")} being written.`);
  }
}
