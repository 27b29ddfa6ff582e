/**
 * What every layer that holds matrices is made with.
 *
 * @module
 */
import type { LinearLayout } from "../../kernels/linear/layout.ts";
import type { DeviceMemory } from "../gpu/memory.ts";
import type { Communicator } from "../parallel/communicator.ts";
import type { AttentionBackends } from "./attention_backend.ts";
import type { MatrixFormats } from "./matrix_format.ts";
import type { QuantizingUpload } from "./quantizing_upload.ts";

export interface LayerContext {
  readonly memory: DeviceMemory;
  readonly layout: LinearLayout;
  readonly formats: MatrixFormats;
  /** Which of how many ranks the layer is on, and how it reaches the others. */
  readonly communicator: Communicator;
  /** Default auto. */
  readonly attention?: AttentionBackends | undefined;
  /** Needed when `formats` quantizes at upload, and not while memory is only counted. */
  readonly upload?: QuantizingUpload | undefined;
}
