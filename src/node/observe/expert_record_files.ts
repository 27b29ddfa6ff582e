/**
 * Records of a server's choices of experts, written as files into a folder that its operator has
 * chosen. `--init-expert-location` reads them.
 *
 * @module
 */
import { mkdir, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { UnsupportedError } from "../../errors.ts";
import type { ExpertRecord, ExpertRecording, RecordedRows } from "../../expert_record.ts";
import type { GenerationEngine } from "../../generation.ts";
import type { ExpertRecordControl } from "../../server/observe/expert_record_control.ts";

export class ExpertRecordFiles implements ExpertRecordControl {
  readonly #engine: GenerationEngine;
  readonly #folder: string;
  #count = 0;

  /** @param folder Made when it is not there. */
  constructor(engine: GenerationEngine, folder: string) {
    this.#engine = engine;
    this.#folder = folder;
  }

  async start(): Promise<void> {
    await this.#record("start");
  }

  async stop(): Promise<void> {
    await this.#record("stop");
  }

  async dump(): Promise<string> {
    const dumped = await this.#record("dump");
    await mkdir(this.#folder, { recursive: true });
    this.#count += 1;
    const time = new Date().toISOString().replaceAll(":", "-");
    const name = `expert_distribution_recorder_${time}_${this.#count}.json`;
    await writeFile(join(this.#folder, name), JSON.stringify(fileOf(dumped)), { flag: "wx" });
    return name;
  }

  async #record(recording: ExpertRecording): Promise<ExpertRecord> {
    if (this.#engine.recordExperts === undefined) {
      throw new UnsupportedError("a record of experts", "this engine does not count them");
    }
    return this.#engine.recordExperts(recording);
  }
}

/** The fields of a file, in the names that its readers know. */
function fileOf(record: ExpertRecord): object {
  const { mode, passes, balancedness, logicalCount, records, placement } = record;
  if (mode === "stat") {
    return {
      rank: 0,
      passes,
      average_utilization_rate_over_window: balancedness,
      logical_count: logicalCount,
    };
  }
  return {
    records: records.map((one) => ({
      forward_pass_id: one.forwardPass,
      rank: 0,
      gatherer_key: "primary",
      ...(one.rows === undefined
        ? { global_physical_count: (one.slotCounts ?? []).map((counts) => [...counts]) }
        : rowFields(one.rows)),
    })),
    last_physical_to_logical_map: placement,
  };
}

function rowFields(rows: RecordedRows): object {
  const { tokens, positions, extendLengths, forwardMode, perRow, slots } = rows;
  return {
    input_ids: [...tokens],
    positions: [...positions],
    extend_seq_lens: extendLengths,
    forward_mode: forwardMode,
    topk_ids_of_layer: slots.map((layer) =>
      Array.from(tokens, (_, row) => [...layer.subarray(row * perRow, (row + 1) * perRow)]),
    ),
    misc_objects: [],
  };
}
