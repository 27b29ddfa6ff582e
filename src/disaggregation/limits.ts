/**
 * How much prefill and decode servers take from each other.
 *
 * @module
 */

/** Rooms of a server at once, those that wait for their other side among them. */
export const MAX_ROOMS = 8192;

/** UTF-16 units of a room's name. */
export const MAX_ROOM_NAME = 64;

/** Bytes of a message that has no pages. */
export const MAX_CONTROL_BYTES = 2 ** 20;

/** Bytes of pages in one message, unless one page has more. */
export const MAX_PAGE_BYTES = 4 * 2 ** 20;

/** Messages with pages of one room that are on their way, and not in place yet. */
export const MAX_FRAMES_AHEAD = 2;

/** Connections of a bootstrap port at once, those that have not said who they are among them. */
export const MAX_PAGE_CHANNELS = 256;

/** Of them those of pages of browsers, each of which has one. */
export const MAX_OWNER_CHANNELS = 128;

/** Leases of one page of a browser that no request has come for yet. */
export const MAX_OWNER_LEASES = 64;

/** Tickets of pages that were used of late: each is remembered until its time is over. */
export const MAX_USED_TICKETS = 65_536;
