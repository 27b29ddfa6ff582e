/** Schemas as people write them, all of them. */
import type { CollectedSchema } from "./collection.ts";
import { CONFIGURATION_FILES } from "./configuration_files.ts";
import { FUNCTION_TOOLS } from "./function_tools.ts";
import { HEALTH_RECORDS } from "./health_records.ts";
import { KINDS_AND_EVENTS } from "./kinds_and_events.ts";
import { KUBERNETES_RESOURCES } from "./kubernetes_resources.ts";
import { OPENAPI_COMPONENTS } from "./openapi_components.ts";

export const ALL_COLLECTIONS: readonly CollectedSchema[] = [
  ...OPENAPI_COMPONENTS,
  ...KUBERNETES_RESOURCES,
  ...CONFIGURATION_FILES,
  ...FUNCTION_TOOLS,
  ...HEALTH_RECORDS,
  ...KINDS_AND_EVENTS,
];
