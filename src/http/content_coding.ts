/**
 * What a Content-Encoding says, and how it is undone.
 *
 * @module
 */

/** What every platform can undo, by the names of HTTP. */
const FORMATS: ReadonlyMap<string, CompressionFormat> = new Map([
  ["gzip", "gzip"],
  ["x-gzip", "gzip"],
  ["deflate", "deflate"],
]);

/** As the header Accept-Encoding lists them. */
export const READ_CODINGS = "gzip, deflate";

/** The format of a coding; undefined where it is not read, and of several one on top of the other. */
export function formatOf(coding: string): CompressionFormat | undefined {
  return FORMATS.get(coding.trim().toLowerCase());
}

/** The bytes as they were; the stream fails where they never were of that format. */
export function decoded(bytes: Uint8Array, format: CompressionFormat): ReadableStream<Uint8Array> {
  const source = new Blob([bytes as BlobPart]).stream();
  return source.pipeThrough(new DecompressionStream(format));
}
