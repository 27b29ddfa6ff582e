/**
 * The parts of the library that need a browser.
 *
 * @module
 */

export { openDevice } from "./device.ts";
