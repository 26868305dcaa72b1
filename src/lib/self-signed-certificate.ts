/**
 * A certificate that its own key has signed (RFC 5280, without extensions): for connections whose ends know each other's
 * fingerprint, so that neither names nor authorities nor a date of expiry mean anything.
 */
import { createHash, generateKeyPairSync, randomBytes, sign, X509Certificate } from "node:crypto";

export interface Certificate {
  /** Private key and certificate as PEM. */
  readonly key: string;
  readonly cert: string;
}

const INTEGER = 0x02;
const BIT_STRING = 0x03;
const OBJECT_ID = 0x06;
const UTF8_STRING = 0x0c;
const UTC_TIME = 0x17;
const GENERALIZED_TIME = 0x18;
const SEQUENCE = 0x30;
const SET = 0x31;
const VERSION_FIELD = 0xa0;

const SERIAL_BYTES = 16;
const ECDSA_WITH_SHA256 = Buffer.from("2a8648ce3d040302", "hex");
const COMMON_NAME = Buffer.from("550403", "hex");
const VALID_FROM = Buffer.from("250101000000Z");
const VALID_FOR_EVER = Buffer.from("99991231235959Z");

/** `name` is its subject and issuer, at most 64 characters. */
export function selfSignedCertificate(name: string): Certificate {
  const { privateKey, publicKey } = generateKeyPairSync("ec", { namedCurve: "P-256" });
  const algorithm = der(SEQUENCE, der(OBJECT_ID, ECDSA_WITH_SHA256));
  const commonName = der(SEQUENCE, der(OBJECT_ID, COMMON_NAME), der(UTF8_STRING, Buffer.from(name)));
  const subject = der(SEQUENCE, der(SET, commonName));
  const serial = randomBytes(SERIAL_BYTES);
  serial[0] = (serial[0]! & 0x3f) | 0x40; // Positive, and no leading zero to leave out.
  const body = der(
    SEQUENCE,
    der(VERSION_FIELD, der(INTEGER, Buffer.of(2))),
    der(INTEGER, serial),
    algorithm,
    subject,
    der(SEQUENCE, der(UTC_TIME, VALID_FROM), der(GENERALIZED_TIME, VALID_FOR_EVER)),
    subject,
    publicKey.export({ type: "spki", format: "der" }),
  );
  const signature = sign("sha256", body, privateKey);
  const whole = der(SEQUENCE, body, algorithm, der(BIT_STRING, Buffer.of(0), signature));
  return {
    key: privateKey.export({ type: "pkcs8", format: "pem" }) as string,
    cert: new X509Certificate(whole).toString(),
  };
}

/** SHA-256 of a PEM certificate's DER form, 64 hexadecimal digits. */
export function fingerprint(cert: string): string {
  return createHash("sha256").update(new X509Certificate(cert).raw).digest("hex");
}

/** One value: its tag, its length, its content. */
function der(tag: number, ...parts: readonly Uint8Array[]): Buffer {
  const content = Buffer.concat(parts);
  const { length } = content;
  if (length < 0x80) return Buffer.concat([Buffer.of(tag, length), content]);
  const bytes = length < 0x100 ? [0x81, length] : [0x82, length >> 8, length & 0xff];
  return Buffer.concat([Buffer.of(tag, ...bytes), content]);
}
