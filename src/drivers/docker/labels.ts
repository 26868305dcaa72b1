/** What the driver writes on its containers, networks and images, to know them again. */
export const LABEL = {
  /** Of containers and networks: which platform's (a digest of its data directory). */
  platform: "svc.platform",
  dataDir: "svc.data-dir",
  endpointId: "svc.endpoint",
  endpointName: "svc.endpoint-name",
  revision: "svc.revision",
  /** Digest of the secret with which the launcher inside proves itself. */
  launcher: "svc.launcher",
  /** What one worker of it may use: limits of the container grow with its workers. */
  memoryBytes: "svc.worker-memory-bytes",
  vcpus: "svc.worker-vcpus",
  /** Of a container that is one worker: its id, and what it may use. */
  worker: "svc.worker",
  share: "svc.worker-share",
  /** A container that only looks at an image. */
  probe: "svc.probe",

  /** Of images that were built for an endpoint. */
  built: "svc.built",
  /** Of images: "cpu" or "gpu". */
  image: "svc.image",
  version: "svc.version",
  python: "svc.python",
  /** "numpy==2.1.0,torch==2.5.1" */
  packages: "svc.packages",
} as const;
