/** The `cors` setting: which browser pages may call an endpoint. */

export const ORIGIN_HELP = 'write it as scheme://host[:port], e.g. "https://example.com".';

/** "*", a comma list of origins, or "" for none. */
export function originsOf(cors: string): string[] {
  return cors === "" ? [] : cors.split(",");
}

export function isOrigin(text: string): boolean {
  if (text === "*") return true;
  try {
    return new URL(text).origin === text.toLowerCase();
  } catch {
    return false;
  }
}
