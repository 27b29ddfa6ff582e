/**
 * The engine as users of the library have it: with chat completions in OpenAI's shape.
 *
 * @module
 */
import type { WeightSource } from "../checkpoint/source.ts";
import { Engine as EngineAlone } from "../engine/engine.ts";
import type { EngineOptions } from "../engine/engine_options.ts";
import type { OpenaiChat } from "../server/openai_chat.ts";
import { lazyChat } from "./lazy_chat.ts";

export class Engine extends EngineAlone {
  /** As OpenAI's client has it: `engine.chat.completions.create({ messages })`. */
  readonly chat: OpenaiChat = lazyChat(this);

  /**
   * Reads a checkpoint onto the device and compiles its plan. A load that fails leaves nothing on
   * the device, and one whose device is lost is not tried again. The sources are closed either way.
   *
   * @throws {CheckpointError | UnsupportedError} naming what is wrong with the checkpoint.
   * @throws {DeviceError} with figures when it does not fit.
   * @throws {InvalidRequestError} naming an option that is out of range.
   */
  static override async load(from: WeightSource, options: EngineOptions): Promise<Engine> {
    // biome-ignore lint/complexity/noThisInStatic: it makes an engine of the class that it is called on.
    return (await super.load(from, options)) as Engine;
  }
}
