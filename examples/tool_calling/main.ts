// Tools: the model says what to call, the program calls it, and the model answers from the result.
// Run it: npm run build && node examples/tool_calling/main.ts (Node 22.18 or newer)

import { type ChatMessage, createMessageParser, Engine, marksOf } from "wisp-llm";
import { defaultModelPath, openDevice, openFolder } from "wisp-llm/node";

// What the model may call, and what it is told of that. Results are texts; this model knows JSON.
const functions: Readonly<Record<string, (args: Record<string, string>) => string>> = {
  get_weather: ({ unit }) =>
    `{"temperature": ${unit === "celsius" ? 21 : 70}, "condition": "sunny"}`,
  get_time: () => '{"time": "14:05"}',
};
const string = { type: "string" };
const tool = (name: string, description: string, properties: object) => ({
  type: "function",
  function: { name, description, parameters: { type: "object", properties, required: ["city"] } },
});
const tools = [
  tool("get_weather", "Get the current weather in a city.", { city: string, unit: string }),
  tool("get_time", "Get the current time in a city.", { city: string }),
];

const { device } = await openDevice();
const engine = await Engine.load(await openFolder(defaultModelPath()), { device });
// How this model writes calls. Its marks are special tokens, which the text has to show.
const form = { toolCalls: "deepseekv3", tools: Object.keys(functions) } as const;
const sampling = { temperature: 0, shownSpecialTokens: marksOf(form) };

/** The model's next message: what it says and what it calls, told apart as they come. */
async function next(messages: readonly ChatMessage[]) {
  const parser = createMessageParser(form);
  let content = "";
  const calls: { readonly id: string; readonly name: string; args: string }[] = [];
  for await (const { text, finish } of engine.generate({ messages, tools, sampling })) {
    for (const event of [...parser.push(text), ...(finish === null ? [] : parser.end())]) {
      if (event.type === "content") content += event.text;
      if (event.type === "call") calls.push({ id: event.id, name: event.name, args: "" });
      if (event.type === "arguments") calls[event.index]!.args += event.text;
    }
  }
  const toolCalls = calls.map(({ id, name, args }) => {
    return { id, type: "function" as const, function: { name, arguments: args } };
  });
  return { role: "assistant", content, tool_calls: toolCalls };
}

const messages: ChatMessage[] = [
  { role: "user", content: "What is the weather in Paris in celsius?" },
];
for (;;) {
  const message = await next(messages);
  messages.push(message);
  if (message.tool_calls.length === 0) break;
  for (const { id, function: called } of message.tool_calls) {
    const content = functions[called.name]!(JSON.parse(called.arguments));
    console.log(`${called.name}(${called.arguments}) is ${content}`);
    messages.push({ role: "tool", tool_call_id: id, content });
  }
}
console.log(messages.at(-1)!.content);
await engine.close();
