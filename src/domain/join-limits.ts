/** Numbers that bound how machines join, and how they fetch layers. */

/** A join token is good for so long, and no longer than the second. */
export const JOIN_TOKEN_S = 3_600;
export const JOIN_TOKEN_MAX_S = 30 * 86_400;
/** Join tokens that are kept at once; those that are over make room. */
export const JOIN_TOKENS_MAX = 1_000;
/** Labels that an endpoint may name in `hosts=`. */
export const HOST_LABELS_MAX = 32;
/** A ticket lets a host fetch one layer for so long. */
export const LAYER_TICKET_S = 3_600;
/** Answers with a layer that one host gets at once. An agent asks for LAYER_PARTS_AT_ONCE of each layer. */
export const LAYER_SENDS_MAX = 32;
/** One answer with a layer, or a part of it, is cut after this, however it moves. */
export const LAYER_SEND_MAX_MS = 3_600_000;
