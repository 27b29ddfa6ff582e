/**
 * What stands for the pages of all origins, in a list of those that may use a server.
 *
 * @module
 */
export const EVERY_ORIGIN = "*";
