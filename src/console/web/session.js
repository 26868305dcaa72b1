/** Who looks: what the page was given by the platform, and what of that may be done. */
const given = document.querySelector('meta[name="svc-session"]');
export const session = JSON.parse(given.content);
// What is added to this page later cannot read it there.
given.remove();

/** Every scope includes what is weaker: admin, then deploy and read; admin, then invoke. */
export function may(scope) {
  const { scopes } = session;
  return scopes.includes(scope) || scopes.includes("admin") || (scope === "read" && scopes.includes("deploy"));
}
