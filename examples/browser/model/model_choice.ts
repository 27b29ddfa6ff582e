/**
 * The models that a visitor can pick, wherever they are.
 *
 * @module
 */
import type { ModelOrigin } from "wisp-llm/browser";

export type ModelChoice =
  /** A folder at an address; the embedded model is one beside the page. */
  | { readonly kind: "url"; readonly url: string; readonly name: string }
  /** A model on a hub, which is stored before it is loaded. */
  | { readonly kind: "hub"; readonly id: string }
  /** One that is in the browser's storage; with an origin, what is missing of it is fetched. */
  | { readonly kind: "store"; readonly name: string; readonly origin?: ModelOrigin }
  /** Files of a folder on this machine. */
  | { readonly kind: "files"; readonly files: File[]; readonly name: string };

/** Beside the built page, as the demo's Vite config puts it there. */
const EMBEDDED_ADDRESS = "tiny-deepseek-v3/";

export const EMBEDDED: ModelChoice = {
  kind: "url",
  url: new URL(EMBEDDED_ADDRESS, globalThis.document?.baseURI ?? "http://localhost/").href,
  name: "tiny-deepseek-v3",
};

export function nameOf(choice: ModelChoice): string {
  return choice.kind === "hub" ? choice.id : choice.name;
}

/** The model of the page's query: `?model=` and an address, or `embedded`. */
export function choiceOfQuery(query: string): ModelChoice | undefined {
  const model = new URLSearchParams(query).get("model");
  if (model === null || model === "") return undefined;
  return model === "embedded" ? EMBEDDED : choiceOfUrl(model);
}

/** @throws {TypeError} when it is no address, not even one beside the page. */
export function choiceOfUrl(address: string): ModelChoice {
  const url = new URL(address, document.baseURI);
  const name =
    url.pathname
      .split("/")
      .filter((part) => part !== "")
      .at(-1) ?? url.host;
  return { kind: "url", url: url.href, name: decodeURIComponent(name) };
}
