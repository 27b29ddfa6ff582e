/**
 * What all constraints have in common that have schemas inside other text.
 *
 * @module
 */

import type { JsonSchemaOptions } from "../schema/json_schema.ts";
import type { Marks } from "./marks.ts";

/** What schemas inside other text are read with. */
export interface SchemaContext {
  readonly marks: Marks;
  readonly json?: JsonSchemaOptions | undefined;
}
