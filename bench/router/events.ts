/**
 * Events as chats have them.
 *
 * @module
 */

/** The event with this number: about 200 bytes. */
export function eventOf(at: number): string {
  const choice = { index: 0, delta: { content: ` token ${at}` }, finish_reason: null };
  const event = { id: "bench", object: "chat.completion.chunk", model: "bench", choices: [choice] };
  return `data: ${JSON.stringify({ ...event, usage: null, created: 1_700_000_000 + at })}\n\n`;
}

/** All bytes of a stream. */
export function streamOf(events: number): string {
  return `${Array.from({ length: events }, (_, at) => eventOf(at)).join("")}data: [DONE]\n\n`;
}
