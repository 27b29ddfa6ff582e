/**
 * The models in the browser's storage: load, resume, delete.
 *
 * @module
 */
import { type ModelOrigin, openModelStore, type StoredModel } from "wisp-llm/browser";
import { announce } from "../app/announce.ts";
import { element, fill } from "../app/dom.ts";
import { formatBytes } from "../app/format.ts";
import { icon } from "../app/icons.ts";
import { modelRow, type PickerActions, partTitle } from "./picker_parts.ts";

export class StoredModels {
  /** Hidden while there are none. */
  readonly element: HTMLElement;
  readonly #actions: PickerActions;
  readonly #list = element("ul", { class: "models" });
  readonly #usage = element("p", { class: "hint" });

  constructor(actions: PickerActions) {
    this.#actions = actions;
    this.element = element(
      "section",
      { class: "part", hidden: true },
      partTitle("In this browser", "there without a network"),
      this.#list,
      this.#usage,
    );
  }

  /** Looks at the storage anew. A browser without one has nothing to show here. */
  async refresh(): Promise<void> {
    const found = await this.#look().catch(() => undefined);
    this.element.hidden = found === undefined || found.models.length === 0;
    if (found === undefined) return;
    const { used, quota, persisted } = found.usage;
    const fate = persisted ? "" : "; the browser may delete them when the disk gets full";
    const most = quota === undefined ? "" : ` of ${formatBytes(quota)}`;
    this.#usage.textContent = `${formatBytes(used)}${most} are in use${fate}`;
    fill(this.#list, ...found.models.map((model) => this.#row(model)));
  }

  async #look() {
    const store = await openModelStore();
    return { models: await store.list(), usage: await store.usage() };
  }

  #row({ name, size, missing, isComplete, origin }: StoredModel): HTMLElement {
    const remove = element(
      "button",
      {
        type: "button",
        class: "quiet",
        "aria-label": `Delete ${name}`,
        title: "Delete",
        onclick: () => void this.#delete(name),
      },
      icon("remove"),
    );
    // Files of this machine cannot be found again by the page.
    const again = origin?.kind === "url" || origin?.kind === "hub" ? origin : undefined;
    const here = `${formatBytes(size - missing)} of ${formatBytes(size)}`;
    const base = { name, facts: isComplete ? formatBytes(size) : here, more: [remove] };
    if (isComplete) {
      const pick = () => this.#actions.pick({ kind: "store", name });
      return modelRow({ ...base, action: "Load", pick });
    }
    if (again === undefined) {
      return modelRow({ ...base, verdict: "Incomplete: pick its folder again", state: "bad" });
    }
    return modelRow({
      ...base,
      verdict: `Incomplete: ${formatBytes(missing)} are missing`,
      state: "bad",
      action: "Resume",
      pick: () => this.#actions.pick({ kind: "store", name, origin: again as ModelOrigin }),
    });
  }

  async #delete(name: string): Promise<void> {
    if (!confirm(`Delete ${name} from this browser?`)) return;
    try {
      const store = await openModelStore();
      await store.delete(name);
      announce(`${name} is deleted`);
    } catch (error) {
      this.#actions.fail(error);
    }
    await this.refresh();
  }
}
