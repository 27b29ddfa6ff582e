/**
 * What the files of all processors say alike.
 *
 * @module
 */
import type { ConfigReader } from "../../checkpoint/config.ts";
import type { PixelScale } from "../../images/patches.ts";

const CHANNELS = 3;

/** Pillow's numbers of its filters. */
export const LANCZOS = 1;
export const BICUBIC = 3;

/**
 * Reads preprocessor_config.json up to what is the same in all families.
 *
 * @throws {CheckpointError | UnsupportedError} naming the field.
 */
export function readPreprocessor(
  config: ConfigReader,
  { type, resample }: { readonly type: string; readonly resample: number },
): PixelScale {
  config.only("image_processor_type", [type]);
  for (const step of ["do_convert_rgb", "do_resize", "do_rescale", "do_normalize"]) {
    config.only(step, [true]);
  }
  config.only("resample", [resample]);
  config.skip("processor_class");
  const rescale = config.number("rescale_factor", { min: 0, fallback: 1 / 255 });
  return readScale(config, rescale);
}

/** @throws {CheckpointError} naming the field. */
export function readScale(config: ConfigReader, rescale: number): PixelScale {
  const scale = {
    rescale,
    mean: channels(config, "image_mean"),
    deviation: channels(config, "image_std"),
  };
  if (scale.deviation.includes(0)) throw config.error("image_std", "it must not be 0");
  return scale;
}

/** What of an image's key says how its pixels become numbers. */
export const scaleKey = ({ rescale, mean, deviation }: PixelScale): string =>
  JSON.stringify([rescale, mean, deviation]);

function channels(config: ConfigReader, field: string): readonly number[] {
  const values = config.numbers(field);
  if (values.length === CHANNELS) return values;
  throw config.error(field, `it must have ${CHANNELS} numbers, not ${values.length}`);
}

/** Both sides of a size that the file gives as one number or two, where it is that of the tower. */
export function requireSide(
  config: ConfigReader,
  field: string,
  { side, names }: { readonly side: number; readonly names: readonly string[] },
): void {
  const section = config.section(field);
  for (const name of names) {
    const given = section.integer(name, { min: 1 });
    if (given === side) continue;
    throw section.error(name, `the vision tower sees ${side} pixels, not ${given}`);
  }
}
