/** A picture whose alpha hides colours, in files of each kind that has alpha. */
import { onWhite } from "../../../src/images/alpha.ts";

export const ALPHA_SIZE = { width: 12, height: 6 };
/** Of each row. */
const ALPHAS = [0, 1, 7, 128, 254, 255] as const;

/** Red, green, blue and alpha of a pixel. */
export const alphaPixel = (x: number, y: number): readonly [number, number, number, number] => [
  (x * 21) % 256,
  (y * 43) % 256,
  (x * y * 7 + 90) % 256,
  ALPHAS[y]!,
];

/** `[height, width, 4]` */
export function alphaValues(): Uint8Array {
  const { width, height } = ALPHA_SIZE;
  const pixels = Array.from({ length: width * height }, (_, i) =>
    alphaPixel(i % width, Math.floor(i / width)),
  );
  return Uint8Array.from(pixels.flat());
}

/** What is seen of pixels. */
export function seenOf(rgba: ArrayLike<number>, alpha: "drop" | "white"): readonly number[] {
  return Array.from({ length: (rgba.length / 4) * 3 }, (_, i) => {
    const at = Math.floor(i / 3) * 4;
    const value = rgba[at + (i % 3)]!;
    return alpha === "drop" ? value : onWhite(value, rgba[at + 3]!);
  });
}

const base64 = (text: string): Uint8Array => Uint8Array.from(Buffer.from(text, "base64"));

/** Without a loss, colours that alpha hides too. */
export const ALPHA_WEBP = base64(
  "UklGRlIAAABXRUJQVlA4TEYAAAAvC0ABELkyRPQ/dhHR/4CCtm0Y8wl/hDsYpkIxI0lwsH9zsAzBoqzCtm0bZrQ/79sngA/xDYF8w3yF9Qr/4CAIEmJQDDIB",
);

/** Of other colours; where nothing is seen it has none. */
export const ALPHA_GIF = base64(
  "R0lGODlhDAAGAIUAAExpcZPXT72sVqisOmnXCajXclTX5pOB7b3XlaiBApOsHn6sAn6B2NLXuH7XLGms5r2BF+fX29KBLOesjtKscueBQSrXoACBWhXXfRWBbwDXWj/XwyqBhFSsyj+srj+BmVSBrmmBwyqskhWsdgCsWgAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAACH5BAUAAAAALAAAAAAMAAYAAAYpQIBwSCwaj8hLhvMBhRiHBERSIY1Ens5joRgIKBMNxrIxEByBAqIRCQIAOw==",
);
