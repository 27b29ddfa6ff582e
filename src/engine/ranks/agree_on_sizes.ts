/**
 * What ranks compare before any of them allocates its part of a model.
 *
 * @module
 */
import { agree } from "../../parallel/agree.ts";
import type { Communicator } from "../../parallel/communicator.ts";
import type { LoadOptions } from "../load/load_options.ts";
import type { PreparedLoad } from "../load/prepare_load.ts";
import { coinThresholds } from "../resolve_speculation.ts";

/** @throws {GroupError} on every rank, when one of them is about to load something else. */
export function agreeOnSizes(
  communicator: Communicator,
  { definition, options, oneForm, memoryBudget, sizes, draft, expertLayout }: PreparedLoad,
  {
    quantization = "as published",
    numericClass = "auto",
    headByGroup = false,
    wholeDenseLayers = false,
    twoBatchOverlap = false,
  }: LoadOptions,
): Promise<void> {
  return agree(communicator, "what they load", {
    architecture: definition.architecture,
    quantization,
    contextLength: options.contextLength,
    cacheTokens: memoryBudget.cacheTokens,
    cacheDtype: options.cacheDtype,
    pageSize: options.pageSize,
    maxRowsPerStep: options.maxRows,
    maxRunningRequests: options.maxRunningRequests,
    transfersPages: options.transfersPages,
    decodeBuckets: options.decodeBuckets.join(),
    quantizeActivations: options.quantizeActivations,
    numericClass,
    oneForm,
    headByGroup,
    wholeDenseLayers,
    twoBatchOverlap,
    maxDrafts: sizes.maxDrafts,
    draftTree: JSON.stringify(sizes.tree ?? {}),
    draftWeightBytes: draft?.weightBytes ?? 0,
    maxTreeNodes: sizes.maxTreeNodes ?? 0,
    experts: expertLayout?.asText ?? "as they come",
    acceptThresholds: JSON.stringify(coinThresholds(options) ?? {}),
  });
}
