/**
 * Where the device's memory went, and what the KV cache holds of it: a bar for each.
 *
 * @module
 */
import type { EngineStatus, MemoryPlan } from "wisp-llm";
import { element } from "../app/dom.ts";
import { formatBytes } from "../app/format.ts";
import { count, percent } from "../drawing/figures.ts";

/** A part of a whole; `tone` names its colour in the styles. */
export interface Part {
  readonly name: string;
  readonly tone: "weights" | "workspace" | "cache" | "used" | "cached" | "free";
  readonly size: number;
}

/** The memory that the engine may take, in bytes. */
export function memoryParts(plan: MemoryPlan): readonly Part[] {
  const { weightBytes, workspaceBytes, cacheBytes, budget } = plan;
  const parts: readonly Part[] = [
    { name: "weights", tone: "weights", size: weightBytes },
    { name: "workspace", tone: "workspace", size: workspaceBytes },
    { name: "KV cache", tone: "cache", size: cacheBytes },
    { name: "free", tone: "free", size: budget - weightBytes - workspaceBytes - cacheBytes },
  ];
  return parts.filter(({ size }) => size > 0);
}

export type CacheUse = Pick<EngineStatus, "totalTokens" | "usedTokens" | "cachedTokens">;

/** The slots of the KV cache, in tokens. */
export function cacheParts(status: CacheUse): readonly Part[] {
  const { totalTokens, usedTokens, cachedTokens } = status;
  return [
    { name: "in use", tone: "used", size: usedTokens },
    { name: "cached prefixes", tone: "cached", size: cachedTokens },
    { name: "free", tone: "free", size: totalTokens - usedTokens - cachedTokens },
  ];
}

export class MemorySection {
  readonly element: HTMLElement;
  readonly #cache = element("div", { class: "panel-bar" });

  constructor(plan: MemoryPlan) {
    const memory = element("div", { class: "panel-bar" });
    fillBar(memory, memoryParts(plan), { what: "Memory", unit: formatBytes });
    this.element = element(
      "section",
      { class: "panel-section" },
      element("h3", {}, "Memory", element("small", {}, `of ${formatBytes(plan.budget)}`)),
      memory,
      element("h3", {}, "KV cache", element("small", {}, `${count(plan.cacheTokens)} tokens`)),
      this.#cache,
    );
  }

  show(status: EngineStatus): void {
    fillBar(this.#cache, cacheParts(status), { what: "KV cache", unit: count });
  }
}

/** The bar with its parts, and a line that names them with their sizes. */
export function fillBar(
  root: HTMLElement,
  parts: readonly Part[],
  { what, unit }: { readonly what: string; readonly unit: (size: number) => string },
): void {
  const whole = parts.reduce((sum, { size }) => sum + size, 0);
  const words = parts.map(({ name, size }) => `${name} ${unit(size)}`);
  const segments = parts
    .filter(({ size }) => size > 0)
    .map(({ tone, name, size }) =>
      element("span", {
        class: `share-part is-${tone}`,
        style: `flex-grow: ${size / whole}`,
        title: `${name}: ${unit(size)}, ${percent(size / whole)}`,
      }),
    );
  const legend = parts.map(({ tone, name, size }) =>
    element(
      "li",
      {},
      element("span", { class: `key is-${tone}` }, name),
      element("b", {}, unit(size)),
    ),
  );
  const bar = element("div", {
    class: "share-bar",
    role: "img",
    "aria-label": `${what}: ${words.join(", ")}`,
  });
  bar.append(...segments);
  root.replaceChildren(bar, element("ul", { class: "share-legend" }, ...legend));
}
