/**
 * What the npm package, the Python distribution and the platform's container image are called where they are published:
 * "svc" belongs to others there. Commands, imports and folders are called svc everywhere. A test keeps
 * python/pyproject.toml equal to it. The images of workers (CPU_IMAGE) are made on each machine and published nowhere.
 */
export const PUBLISHED_NAME = "svc-platform";

/** The wheel of the Python package, which every svc carries. */
export function wheelName(version: string): string {
  return `${PUBLISHED_NAME.replaceAll("-", "_")}-${version}-py3-none-any.whl`;
}
