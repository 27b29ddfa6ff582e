/**
 * `GET /metrics`: the figures of the engine and its requests, as monitoring systems read them.
 *
 * What counts them is a platform's own; here is only what the endpoint needs of it.
 *
 * @module
 */

export interface MetricsPage {
  /** Of the text, for the header. */
  readonly contentType: string;
  /** Everything as it is now. */
  text(): Promise<string>;
}

export async function handleMetrics(page: MetricsPage): Promise<Response> {
  return new Response(await page.text(), { headers: { "content-type": page.contentType } });
}
