/**
 * An engine in another thread as users of the library have it: with chat completions in OpenAI's shape.
 *
 * @module
 */
import type { Port } from "../engine/remote/port.ts";
import {
  type ConnectOptions,
  RemoteEngine as EngineAlone,
} from "../engine/remote/remote_engine.ts";
import type { OpenaiChat } from "../server/openai_chat.ts";
import { lazyChat } from "./lazy_chat.ts";

export class RemoteEngine extends EngineAlone {
  /** As OpenAI's client has it: `engine.chat.completions.create({ messages })`. */
  readonly chat: OpenaiChat = lazyChat(this);

  /**
   * Opens the engine that `serveEngine` serves at the port's other end.
   *
   * @throws {WorkerError} when the port ends before it has answered.
   */
  static override async connect(port: Port, options: ConnectOptions = {}): Promise<RemoteEngine> {
    // biome-ignore lint/complexity/noThisInStatic: it makes an engine of the class that it is called on.
    return (await super.connect(port, options)) as RemoteEngine;
  }
}
