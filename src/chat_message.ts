/**
 * The messages of a conversation: plain data.
 *
 * @module
 */

export interface ChatToolCall {
  readonly id?: string;
  readonly type: "function";
  readonly function: { readonly name: string; readonly arguments: string };
}

export interface ChatMessage {
  readonly role: string;
  readonly content: string | null;
  /** What an assistant thought before it answered, for templates that show it again. */
  readonly reasoning_content?: string;
  readonly name?: string;
  readonly tool_calls?: readonly ChatToolCall[];
  readonly tool_call_id?: string;
}
