/**
 * What the page shows while it cannot chat: a question for the key, or what is wrong with the server.
 *
 * @module
 */
import { byId, element } from "../app/dom.ts";
import type { Explanation } from "../model/explain_error.ts";

/** @param isWrong Whether a key was given and the server does not take it. */
export function askForKey(isWrong: boolean, use: (key: string) => void): void {
  const field = element("input", {
    id: "key",
    type: "password",
    autocomplete: "current-password",
    required: true,
    "aria-invalid": isWrong,
    "aria-describedby": "key-hint",
  });
  const hint = isWrong
    ? "This is not the server's key."
    : "It stays in this tab, and is forgotten when you close it.";
  const form = element(
    "form",
    { class: "connect" },
    element("h2", { class: "welcome" }, "This server asks for a key"),
    element(
      "div",
      { class: "field" },
      element("label", { for: "key" }, "Key"),
      field,
      element("p", { id: "key-hint", class: "hint", role: "status" }, hint),
    ),
    element("button", { type: "submit", class: "primary" }, "Open"),
  );
  form.addEventListener("submit", (event) => {
    event.preventDefault();
    if (field.value !== "") use(field.value);
  });
  byId("connect-view").replaceChildren(form);
  field.focus();
}

export function showFailure({ text, advice }: Explanation, retry: () => void): void {
  byId("connect-view").replaceChildren(
    element(
      "div",
      { class: "connect", role: "alert" },
      element("h2", { class: "welcome" }, "The server does not answer"),
      element("p", {}, text),
      advice !== undefined && element("p", { class: "hint" }, advice),
      element("button", { type: "button", class: "primary", onclick: retry }, "Try again"),
    ),
  );
}
