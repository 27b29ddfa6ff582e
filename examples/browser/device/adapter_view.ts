/**
 * What the browser tells of its GPU.
 *
 * @module
 */
import type { AdapterDescription } from "wisp-llm/browser";
import { element } from "../app/dom.ts";
import { formatBytes } from "../app/format.ts";
import { icon } from "../app/icons.ts";
import { scroller, table } from "../drawing/drawing.ts";
import { count } from "../drawing/figures.ts";

/** What the library uses beyond the portable core, and why that matters. */
const FEATURES: readonly (readonly [string, string])[] = [
  ["shader-f16", "half-precision weights"],
  ["subgroups", "loads shared in registers"],
  ["timestamp-query", "times of kernels"],
];

export function adapterView(adapter: AdapterDescription): HTMLElement {
  const { name, vendor, architecture, driver, warning, features, limits } = adapter;
  const facts = [
    ["Vendor", vendor],
    ["Architecture", architecture],
    ["Driver", driver === name ? "" : driver],
    ["Largest binding", formatBytes(limits.maxStorageBufferBindingSize ?? 0)],
    ["Largest buffer", formatBytes(limits.maxBufferSize ?? 0)],
    ["Buffers of a kernel", count(limits.maxStorageBuffersPerShaderStage ?? 0)],
  ].filter(([, value]) => value !== "");
  return element(
    "div",
    { class: "adapter" },
    element("p", { class: "adapter-name" }, name),
    warning !== undefined && element("p", { class: "notice is-warning" }, `${warning}.`),
    element("ul", { class: "chips" }, ...FEATURES.map((feature) => chip(feature, features))),
    element(
      "dl",
      { class: "facts" },
      ...facts.map(([term, value]) =>
        element("div", {}, element("dt", {}, term), element("dd", {}, value)),
      ),
    ),
    element(
      "details",
      {},
      element(
        "summary",
        {},
        `All ${features.length} features and ${Object.keys(limits).length} limits`,
      ),
      element("p", { class: "feature-list" }, features.join(", ") || "no features"),
      scroller("Limits", limitTable(limits)),
    ),
  );
}

function chip([feature, use]: readonly [string, string], has: readonly string[]): HTMLElement {
  const isThere = has.includes(feature);
  return element(
    "li",
    { class: isThere ? "chip is-there" : "chip", title: use },
    isThere && icon("check"),
    element("span", { class: "hidden" }, isThere ? "has " : "lacks "),
    feature,
  );
}

function limitTable(limits: Readonly<Record<string, number>>): HTMLTableElement {
  return table({
    class: "figures",
    caption: "Limits of the adapter",
    head: ["Limit", "Value"],
    rows: Object.entries(limits).map(([name, value]) => [name, count(value)]),
  });
}
