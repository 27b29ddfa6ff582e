/**
 * The demo: chat with a model that this page runs on its visitor's GPU.
 *
 * Run it: npm run demo. `?model=` loads a model at once: "embedded", or the address of a folder.
 *
 * @module
 */
import { App } from "./app/app.ts";
import { showError } from "./app/banner.ts";

async function main(): Promise<void> {
  await new App().start();
}

main().catch(showError);
