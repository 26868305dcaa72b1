/** Where the platform's bucket is, and how it is asked. */
export interface BucketSettings {
  readonly name: string;
  /** Undefined: AWS. */
  readonly endpoint: string | undefined;
  /** Undefined: as the SDK finds it, or where there is an endpoint, us-east-1. */
  readonly region: string | undefined;
  /** Before every name: empty, or ends with "/". */
  readonly prefix: string;
  /** https://host/bucket/key instead of https://bucket.host/key */
  readonly pathStyle: boolean;
  /** Undefined: as the SDK finds them. */
  readonly keys: { readonly id: string; readonly secret: string } | undefined;
}
