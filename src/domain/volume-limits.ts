/** Those of limits.ts that bound volumes and the way to their files. Import them from there. */
const MB = 1024 * 1024;

/** Of one endpoint. */
export const VOLUMES_MAX = 16;
export const VOLUME_PATH_MAX_CHARS = 200;
export const VOLUMES_MEASURE_MS = 60_000;
/** Their disk answers within this time, or it is taken for away. */
export const VOLUMES_PATIENCE_MS = 5_000;
export const VOLUMES_LOOK_MS = 2_000;
export const VOLUME_SYNC_PATIENCE_MS = 60_000;
export const VOLUME_PART_BYTES = 8 * MB;
export const VOLUME_UPLOAD_KEPT_MS = 600_000;
