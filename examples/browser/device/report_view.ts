/**
 * The report as a file: what is in it, to read before it is sent, and ways to take it along.
 *
 * @module
 */
import { element, setText } from "../app/dom.ts";
import { saveFile } from "../drawing/save_file.ts";
import type { DeviceReport } from "./device_report.ts";

const CONTENTS: readonly string[] = [
  "what the browser says of the GPU: its names, features and limits",
  "what the browser says of itself: its user agent, which names the system too",
  "the version of wisp, the date, and how much was run",
  "every figure above: speeds, times to load, the self-test, and the time of each kernel",
];

export function reportView(report: DeviceReport): HTMLElement {
  const text = `${JSON.stringify(report, undefined, 2)}\n`;
  const status = element("p", { class: "quiet-note", role: "status" });
  const copy = element("button", { type: "button" }, "Copy");
  copy.addEventListener("click", async () => {
    try {
      await navigator.clipboard.writeText(text);
      setText(status, "Copied");
    } catch {
      setText(status, "Cannot copy: the browser does not allow it. Take the text from below.");
    }
  });
  const download = element("button", { type: "button", class: "primary" }, "Download JSON");
  download.addEventListener("click", () => saveFile(fileName(report), text));
  return element(
    "section",
    { class: "report" },
    element("h2", {}, "Take the figures along"),
    element(
      "p",
      {},
      "wisp runs on GPUs that its authors do not have. If you want to tell them how it does on " +
        "yours, send them this file. The page sends nothing itself. The file has:",
    ),
    element("ul", {}, ...CONTENTS.map((item) => element("li", {}, item))),
    element("p", {}, "It has no address, no name, and nothing that you have typed."),
    element("p", { class: "buttons" }, download, copy),
    status,
    element(
      "details",
      {},
      element("summary", {}, "Read it first"),
      element("pre", { tabindex: 0, "aria-label": "The file" }, text),
    ),
  );
}

/** Such as `wisp-apple-metal-3-2026-11-22.json`. */
export function fileName({ adapter, date }: DeviceReport): string {
  const words = `${adapter.vendor} ${adapter.architecture}`.toLowerCase();
  const name = words.replace(/[^a-z0-9]+/g, "-").replace(/^-|-$/g, "");
  return `wisp-${name || "gpu"}-${date.slice(0, 10)}.json`;
}
