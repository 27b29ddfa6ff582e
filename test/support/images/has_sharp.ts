/** Whether the optional package sharp is installed here. */

const NAME: string = "sharp";

export const hasSharp: boolean = await import(NAME).then(
  () => true,
  () => false,
);

/** Why a test is skipped, to be put behind its name. */
export const sharpNote = hasSharp ? "" : " (skipped: the package sharp is not installed)";
