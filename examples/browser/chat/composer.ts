/**
 * Where questions are written: Enter sends, Shift and Enter begin a new line, Escape stops.
 *
 * @module
 */
import { byId } from "../app/dom.ts";
import { icon } from "../app/icons.ts";
import { ImageTray } from "./image_tray.ts";

export interface ComposerActions {
  /** What to do where nothing answers, such as "Load a model". */
  readonly offHint: string;
  /** @returns Whether it is taken; else it stays in the field. */
  readonly send: (text: string, takeImages: () => readonly string[]) => boolean;
  readonly stop: () => void;
}

/** What the button does: nothing without a model, send, or stop an answer. */
export type ComposerState = "off" | "ready" | "answering";

const MOST_LINES_PX = 240;

export class Composer {
  readonly #form = byId<HTMLFormElement>("composer");
  readonly #field = byId<HTMLTextAreaElement>("prompt");
  readonly #button = byId<HTMLButtonElement>("send");
  readonly #actions: ComposerActions;
  readonly #images: ImageTray;
  #state: ComposerState = "off";

  constructor(actions: ComposerActions) {
    this.#actions = actions;
    this.#images = new ImageTray(this.#field, this.#form);
    this.#form.addEventListener("submit", (event) => {
      event.preventDefault();
      this.#press();
    });
    this.#field.addEventListener("keydown", (event) => {
      // While an input method composes, Enter accepts its proposal.
      if (event.key !== "Enter" || event.shiftKey || event.isComposing) return;
      event.preventDefault();
      if (this.#state === "ready") this.#press();
    });
    this.#field.addEventListener("input", () => this.#fit());
    document.addEventListener("keydown", (event) => {
      if (event.key === "Escape" && this.#state === "answering") actions.stop();
    });
    this.set("off");
  }

  /** Whether the model reads images. */
  offerImages(readsImages: boolean): void {
    this.#images.offer(readsImages);
  }

  set(state: ComposerState): void {
    this.#state = state;
    const isAnswering = state === "answering";
    this.#field.placeholder =
      state === "off" ? `${this.#actions.offHint} to ask it` : "Ask the model";
    const label = isAnswering ? "Stop" : "Send";
    this.#button.replaceChildren(icon(isAnswering ? "stop" : "send"));
    this.#button.setAttribute("aria-label", label);
    this.#button.title = isAnswering ? "Stop (Escape)" : "Send (Enter)";
    this.#button.disabled = state === "off";
  }

  /** Not where that would bring up a keyboard over half of the screen. */
  focus(): void {
    if (matchMedia("(hover: hover)").matches) this.#field.focus();
  }

  /** Writes a proposal into the field. */
  propose(text: string): void {
    this.#field.value = text;
    this.#fit();
    this.focus();
  }

  #press(): void {
    if (this.#state === "answering") {
      this.#actions.stop();
      return;
    }
    const text = this.#field.value.trim();
    if (this.#state === "off" || text === "") return;
    if (!this.#actions.send(text, () => this.#images.take())) return;
    this.#field.value = "";
    this.#fit();
  }

  /** As high as its text. */
  #fit(): void {
    this.#field.style.height = "auto";
    this.#field.style.height = `${Math.min(this.#field.scrollHeight, MOST_LINES_PX)}px`;
  }
}
