/** What was ignored of a request's schema, as each endpoint tells it. */
import { expect, test } from "vitest";
import { createApp } from "../../../src/server/app.ts";
import { type Script, ScriptedEngine } from "../../support/engines/scripted_engine.ts";
import { answer, events, post } from "../../support/server/http_client.ts";

const WARNING = 'Ignored "links": it is no keyword of JSON Schema (at /links)';

interface Told {
  readonly meta_info?: { readonly warnings?: unknown; readonly finish_reason: unknown };
  readonly metadata?: object;
  readonly choices?: readonly { readonly finish_reason: unknown }[];
}

function appWith(warnings?: readonly string[]) {
  const compilation = { isCached: false, seconds: 0, ...(warnings && { warnings }) };
  const script: Script = { pieces: ["1", "2"], compilation };
  return createApp(new ScriptedEngine({ script: () => script }));
}

const schema = '{"links": [], "type": "integer"}';
const BODIES = {
  "/generate": { text: "a", sampling_params: { json_schema: schema } },
  "/v1/chat/completions": { messages: [{ role: "user", content: "a" }], json_schema: schema, n: 2 },
  "/v1/completions": { prompt: "a", json_schema: schema, n: 2 },
};

const warningsIn = ({ meta_info, metadata }: Told): unknown =>
  meta_info?.warnings ?? (metadata as { warnings?: unknown } | undefined)?.warnings;

test.each(Object.entries(BODIES))("%s tells warnings once, in the metadata", async (path, body) => {
  const told = await answer<Told>(await post(appWith([WARNING]), path, body));
  expect(warningsIn(told)).toEqual([WARNING]);
  const silent = await answer<Told>(await post(appWith(), path, body));
  expect(JSON.stringify(silent)).not.toContain("warnings");
});

test.each(Object.entries(BODIES))("a stream of %s tells them with the end", async (path, body) => {
  const isEnd = ({ meta_info, choices }: Told) =>
    (meta_info ?? choices?.[0])?.finish_reason !== null;
  const chunks = await events<Told>(
    await post(appWith([WARNING]), path, { ...body, stream: true }),
  );
  expect(chunks.filter(isEnd).length).toBeGreaterThan(0);
  for (const chunk of chunks) {
    expect(warningsIn(chunk)).toEqual(isEnd(chunk) ? [WARNING] : undefined);
  }
  const silent = await events<Told>(await post(appWith(), path, { ...body, stream: true }));
  expect(JSON.stringify(silent)).not.toContain("warnings");
});

const READINGS = [
  {
    field: "json_unknown",
    value: "refuse",
    sampling: { jsonUnknown: "refuse" },
    names: "ignore, refuse",
  },
  { field: "json_order", value: "schema", sampling: { jsonOrder: "schema" }, names: "any, schema" },
] as const;

const ASKED = Object.entries(BODIES).flatMap(([path, body]) =>
  READINGS.map((reading) => [path, reading.field, body, reading] as const),
);

test.each(ASKED)("%s takes %s", async (path, field, body, { value, sampling, names }) => {
  const engine = new ScriptedEngine();
  const withField = (name: unknown) =>
    path === "/generate"
      ? { text: "a", sampling_params: { [field]: name } }
      : { ...body, [field]: name };
  await post(createApp(engine), path, withField(value));
  expect(engine.requests[0]!.sampling).toMatchObject(sampling);
  const refused = await post(createApp(engine), path, withField("maybe"));
  expect(refused.status).toBe(400);
  expect(await refused.text()).toContain(`${field} must be one of ${names}`);
});
