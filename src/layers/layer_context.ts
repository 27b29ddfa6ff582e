/**
 * What every layer that holds matrices is made with.
 *
 * @module
 */
import type { LinearLayout } from "../../kernels/linear/linear_layout.ts";
import type { DeviceMemory } from "../gpu/memory.ts";
import type { Communicator } from "../parallel/communicator.ts";
import type { ExpertLayout } from "../parallel/experts/expert_layout.ts";
import type { AllToAllMode } from "../parallel/experts/expert_options.ts";
import type { AttentionBackends } from "./attention/attention_backend.ts";
import type { UnsharedParts } from "./ranks/unshared.ts";
import type { MatrixFormats } from "./weights/matrix_format.ts";
import type { QuantizingUpload } from "./weights/quantizing_upload.ts";
import type { RepackingUpload } from "./weights/repacking_upload.ts";

/** What matrices go through on the GPU on their way to their places; not while memory is only counted. */
export interface WeightUploads {
  /** Needed when `formats` quantizes at upload. */
  readonly quantizing?: QuantizingUpload | undefined;
  readonly repacking?: RepackingUpload | undefined;
}

export interface LayerContext {
  readonly memory: DeviceMemory;
  readonly layout: LinearLayout;
  readonly formats: MatrixFormats;
  /** Which of how many ranks the layer is on, and how it reaches the others. */
  readonly communicator: Communicator;
  /** How routed experts lie on the ranks. Default: a slot each, shared out where that is even. */
  readonly expertLayout?: ExpertLayout | undefined;
  /** In which steps each rank adds up rows of its own, for all. Default: every rank adds up all rows. */
  readonly allToAll?: AllToAllMode | undefined;
  /** Whether steps can keep which slots their rows choose. Default: only how many choose each expert. */
  readonly keepsChoices?: boolean | undefined;
  /** Takes note of what ranks cannot share. */
  readonly unshared?: UnsharedParts | undefined;
  /** Whether the inputs of quantized linears are rounded by rows, of which no rank may have a part. */
  readonly roundsRows?: boolean;
  /** Default auto. */
  readonly attention?: AttentionBackends | undefined;
  readonly uploads?: WeightUploads | undefined;
}
