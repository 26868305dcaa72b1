/** Files that look like keys: they ship when no rule keeps them out, so the build names them. */
import ignore from "ignore";
import type { Diagnostic } from "./build-result.ts";

const PATTERNS = [
  "id_rsa",
  "id_dsa",
  "id_ecdsa",
  "id_ed25519",
  "*.pem",
  "*.key",
  "*.p12",
  "*.pfx",
  "*.jks",
  "*.keystore",
  "*.kdbx",
  "*.ppk",
  ".ssh/",
  ".aws/",
  ".kube/",
  ".docker/",
  ".gnupg/",
  ".git-credentials",
  ".htpasswd",
  ".pgpass",
  "credentials.json",
  "service-account*.json",
  "secrets.y*ml",
  "secrets.json",
  "*.tfstate",
];

const looksPrivate = ignore().add(PATTERNS);
const NAMED_MAX = 5;

export function privateFileWarnings(files: readonly { readonly path: string }[]): Diagnostic[] {
  const found = files.map(({ path }) => path).filter((path) => looksPrivate.ignores(path));
  if (found.length === 0) return [];
  const named = found.slice(0, NAMED_MAX).join(", ");
  const more = found.length > NAMED_MAX ? ` and ${found.length - NAMED_MAX} more` : "";
  return [
    {
      severity: "warning",
      rule: "private-file",
      message: `The build ships what looks private: ${named}${more}.`,
      help: "Add it to .svcignore, and give workers keys as secrets (svc secret set).",
    },
  ];
}
