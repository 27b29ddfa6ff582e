/**
 * The parts of the library that need a browser.
 *
 * @module
 */

export { openDevice } from "./device.ts";
export { type UrlSourceOptions, urlSource } from "./url_source.ts";
export { workerGrammarService } from "./worker_grammar_service.ts";
