/**
 * Loads of the embedded model that each have waits of their own.
 *
 * @module
 */
import type { LoadOptions } from "../../../src/engine/load/load_options.ts";
import { EMBEDDED_MODEL } from "../checkpoints/embedded_model.ts";
import { exportLayer } from "../checkpoints/exported_layer.ts";
import { folderSource } from "../checkpoints/folder_source.ts";
import { MemoryBlobs } from "../engines/memory_blobs.ts";

/** The number of the embedded model's draft layer. */
const DRAFT_LAYER = 5;

export const LOADS: Readonly<Record<string, () => Promise<Partial<LoadOptions>>>> = {
  "a layer that drafts, stored prefixes, and a trial": async () => ({
    prefixStore: { storage: new MemoryBlobs() },
    retractionMemory: 2 ** 20,
    speculation: { algorithm: "EAGLE" },
    triesInvariance: true,
  }),
  "an exported layer that drafts": async () => ({
    draftModel: (await exportLayer(folderSource(EMBEDDED_MODEL), { layer: DRAFT_LAYER })).exported,
    speculation: { algorithm: "EAGLE", adaptive: "off" },
  }),
  "a model that drafts": async () => ({
    draftModel: folderSource(EMBEDDED_MODEL),
    speculation: { algorithm: "STANDALONE", adaptive: "off" },
  }),
  "two ranks": async () => ({
    tensorParallelSize: 2,
    prefixStore: { storage: new MemoryBlobs() },
  }),
};
