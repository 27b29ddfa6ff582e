/**
 * Buttons that copy a text.
 *
 * @module
 */
import { announce } from "./announce.ts";
import { element } from "./dom.ts";
import { icon } from "./icons.ts";

const SHOWN_MS = 1500;

/** @param text Is asked when the button is pressed. */
export function copyButton(label: string, text: () => string): HTMLButtonElement {
  const button = element(
    "button",
    { type: "button", class: "quiet", "aria-label": label, title: label },
    icon("copy"),
  );
  button.addEventListener("click", async () => {
    try {
      await navigator.clipboard.writeText(text());
      announce("Copied");
      button.replaceChildren(icon("check"));
      setTimeout(() => button.replaceChildren(icon("copy")), SHOWN_MS);
    } catch {
      announce("Cannot copy: the browser does not allow it");
    }
  });
  return button;
}
