/** Which endpoints this platform runs dispatch, workers and scaling for; those of other shards are other platforms'. */
export type IsMine = (endpointId: string) => boolean;

/** Of a platform that is alone. */
export const ALL_MINE: IsMine = () => true;
