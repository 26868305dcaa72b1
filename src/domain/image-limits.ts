/** Of what surrounds an endpoint's code: packages of its image, a server of its own. */

/** Of what is built on an endpoint's image. */
export const SYSTEM_PACKAGES_MAX = 200;
export const IMAGE_STEPS_MAX = 50;
export const IMAGE_STEP_MAX_CHARS = 4000;
export const IMAGE_BUILD_MAX_MS = 30 * 60_000;
/** Of what a failed build said. */
export const IMAGE_BUILD_LINES = 12;

/** Of a server that an endpoint starts by a command. Workers are no root, who alone may have ports below 1024. */
export const SERVER_COMMAND_MAX = 200;
export const SERVER_COMMAND_MAX_CHARS = 16_384;
export const SERVER_PORT_MIN = 1024;
export const SERVER_PORT_MAX = 65_535;
export const SERVER_READY_DEFAULT_S = 300;
export const SERVER_READY_MAX_S = 3600;
