/**
 * Records of a server's choices of experts, written as files into a folder that its operator has
 * chosen. `--init-expert-location` reads them.
 *
 * @module
 */
import { mkdir, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { UnsupportedError } from "../../errors.ts";
import type { ExpertRecord, ExpertRecording } from "../../expert_record.ts";
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
    const { logicalCount, balancedness, passes } = await this.#record("dump");
    await mkdir(this.#folder, { recursive: true });
    this.#count += 1;
    const time = new Date().toISOString().replaceAll(":", "-");
    const name = `expert_distribution_recorder_${time}_${this.#count}.json`;
    const record = {
      rank: 0,
      passes,
      average_utilization_rate_over_window: balancedness,
      logical_count: logicalCount,
    };
    await writeFile(join(this.#folder, name), JSON.stringify(record), { flag: "wx" });
    return name;
  }

  async #record(recording: ExpertRecording): Promise<ExpertRecord> {
    if (this.#engine.recordExperts === undefined) {
      throw new UnsupportedError("a record of experts", "this engine does not count them");
    }
    return this.#engine.recordExperts(recording);
  }
}
