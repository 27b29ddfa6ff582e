import { fileURLToPath } from "node:url";

/** Folder of the model that comes with the package. */
export const EMBEDDED_MODEL = fileURLToPath(
  new URL("../../../examples/tiny-deepseek-v3", import.meta.url),
);
