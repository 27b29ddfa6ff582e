/**
 * The view in which a model is picked: the embedded one, stored ones, published ones, any other.
 *
 * @module
 */
import { element, fill } from "../app/dom.ts";
import { formatBytes } from "../app/format.ts";
import { chooseFit, type Fit } from "./fit.ts";
import { keepWishes, type LoadWishes } from "./load_wishes.ts";
import { wishesForm } from "./load_wishes_view.ts";
import { choiceOfUrl, EMBEDDED } from "./model_choice.ts";
import { filesForm, textForm } from "./picker_forms.ts";
import { modelRow, type PickerActions, partTitle } from "./picker_parts.ts";
import { PUBLISHED, type PublishedModel } from "./published_models.ts";
import { StoredModels } from "./stored_models.ts";

const EMBEDDED_BYTES = 10.4e6;

export class Picker {
  readonly element: HTMLElement;
  readonly #actions: PickerActions;
  readonly #options: LoadWishes;
  readonly #published = element("ul", { class: "models" });
  readonly #stored: StoredModels;

  constructor(options: LoadWishes, actions: PickerActions) {
    this.#options = options;
    this.#actions = actions;
    this.#stored = new StoredModels(actions);
    this.element = element(
      "div",
      { class: "picker" },
      part("Included", "comes with this page", this.#embedded()),
      this.#stored.element,
      part(
        "From the hub",
        "downloaded once, then kept in this browser",
        this.#published,
        textForm({
          label: "Another model of the hub",
          placeholder: "org/name",
          submit: "Download",
          take: (id) => actions.pick({ kind: "hub", id }),
        }),
      ),
      part(
        "From elsewhere",
        "a folder in the Hugging Face layout",
        textForm({
          label: "Address of a folder",
          placeholder: "https://example.org/model/",
          submit: "Load",
          take: (address) => this.#pickAddress(address),
        }),
        filesForm((files, name) => actions.pick({ kind: "files", files, name })),
      ),
      wishesForm(options, () => {
        keepWishes(options);
        this.#showPublished();
      }),
    );
    this.#showPublished();
  }

  /** Looks at the browser's storage anew. */
  refresh(): void {
    void this.#stored.refresh();
  }

  #pickAddress(address: string): void {
    try {
      this.#actions.pick(choiceOfUrl(address));
    } catch {
      this.#actions.fail(new Error(`"${address}" is no address`));
    }
  }

  #embedded(): HTMLElement {
    const row = modelRow({
      name: "tiny-deepseek-v3",
      facts: `7 million parameters, ${formatBytes(EMBEDDED_BYTES)}`,
      verdict: "Shows that everything works, and knows next to nothing",
      action: "Load",
      pick: () => this.#actions.pick(EMBEDDED),
    });
    return element("ul", { class: "models" }, row);
  }

  #showPublished(): void {
    fill(this.#published, ...PUBLISHED.map((model) => this.#publishedRow(model)));
  }

  #publishedRow({ id, about, downloadBytes, sizes }: PublishedModel): HTMLElement {
    const fits = chooseFit(sizes, { ...this.#options, wish: this.#options.form });
    return modelRow({
      name: id,
      facts: `${about} · ${formatBytes(downloadBytes)} to download`,
      verdict: fits.reason,
      state: verdictState(fits),
      isHere: false,
      action: "Download",
      pick: () => this.#actions.pick({ kind: "hub", id }),
    });
  }
}

function verdictState({ isFitting }: Fit): "good" | "bad" {
  return isFitting ? "good" : "bad";
}

/** A titled part of the view. */
function part(title: string, hint: string, ...children: readonly HTMLElement[]): HTMLElement {
  return element("section", { class: "part" }, partTitle(title, hint), ...children);
}
