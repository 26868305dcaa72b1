/** Bounds of templates, registry credentials, network volumes and the REST routes that reach them. */

/** The body of one REST request. */
export const REST_BODY_MAX_BYTES = 1024 * 1024;
export const TEMPLATES_MAX = 10_000;
/** Texts of a template's entrypoint, and of its command. */
export const CONTAINER_ARGS_MAX = 256;
/** Of those together, of dockerArgs, and of each other text of a template. */
export const CONTAINER_TEXT_MAX_CHARS = 16_384;
export const README_MAX_CHARS = 65_536;
export const REGISTRY_AUTHS_MAX = 1_000;
/** Of a user's name and of a password. */
export const REGISTRY_TEXT_MAX_CHARS = 16_384;
export const NETWORK_VOLUMES_MAX = 1_000;
export const NETWORK_VOLUME_MAX_GB = 999_999;
