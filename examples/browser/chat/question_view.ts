/**
 * One question on the page, which can be copied and asked differently.
 *
 * @module
 */
import { copyButton } from "../app/copy.ts";
import { element } from "../app/dom.ts";
import { icon } from "../app/icons.ts";
import type { UserTurn } from "./conversation.ts";

/** @param resend Is given the new text; what came behind the question goes. */
export function questionView(turn: UserTurn, resend: (text: string) => void): HTMLLIElement {
  const row = element("li", { class: "turn question" });
  const edit = element(
    "button",
    { type: "button", class: "quiet", "aria-label": "Edit and resend", title: "Edit and resend" },
    icon("edit"),
  );
  const show = () => {
    row.replaceChildren(
      element("h2", { class: "hidden" }, "You"),
      shownImages(turn),
      element("div", { class: "bubble" }, turn.text),
      element(
        "div",
        { class: "actions" },
        copyButton("Copy question", () => turn.text),
        edit,
      ),
    );
  };
  edit.addEventListener("click", () => {
    const form = editForm(turn.text, {
      send: resend,
      cancel: () => {
        show();
        edit.focus();
      },
    });
    row.replaceChildren(form);
    form.querySelector("textarea")!.focus();
  });
  show();
  return row;
}

/** "" where the question has none. */
function shownImages({ images = [] }: UserTurn): HTMLElement | "" {
  if (images.length === 0) return "";
  const shown = images.map((src, i) => element("img", { src, alt: `Image ${i + 1}` }));
  return element("div", { class: "shown-images" }, ...shown);
}

interface EditActions {
  readonly send: (text: string) => void;
  readonly cancel: () => void;
}

function editForm(text: string, { send, cancel }: EditActions): HTMLFormElement {
  const field = element("textarea", { "aria-label": "Edit the question", rows: 3 });
  field.value = text;
  const form = element(
    "form",
    { class: "edit" },
    field,
    element(
      "div",
      { class: "buttons" },
      element("button", { type: "button", onclick: cancel }, "Cancel"),
      element("button", { type: "submit", class: "primary" }, "Send"),
    ),
  );
  form.addEventListener("submit", (event) => {
    event.preventDefault();
    if (field.value.trim() !== "") send(field.value.trim());
  });
  field.addEventListener("keydown", (event) => {
    if (event.key === "Escape") {
      event.stopPropagation();
      cancel();
    }
    if (event.key === "Enter" && !event.shiftKey && !event.isComposing) {
      event.preventDefault();
      form.requestSubmit();
    }
  });
  return form;
}
