/** Where the reader is, in the address behind the #: `#/jobs?state=FAILED&in=shop/production`. `in` goes along to every page. */
import { useEffect, useState } from "./html.js";

/** {page, rest, params} of the address. */
export function route() {
  const [path = "", query = ""] = location.hash.slice(1).split("?", 2);
  const [page = "", ...rest] = path
    .split("/")
    .filter((part) => part !== "")
    .map(decoded);
  return { page: page === "" ? "overview" : page, rest, params: new URLSearchParams(query) };
}

function decoded(part) {
  try {
    return decodeURIComponent(part);
  } catch {
    return part;
  }
}

export function useRoute() {
  const [now, set] = useState(route);
  useEffect(() => {
    const read = () => set(route());
    addEventListener("hashchange", read);
    return () => removeEventListener("hashchange", read);
  }, []);
  return now;
}

/** The address of a page: `to("jobs", { state: "FAILED" })`, `to(["endpoint", id])`. What is empty is left out. */
export function to(page, params = {}) {
  const place = route().params.get("in");
  const all = Object.entries({ ...(place && { in: place }), ...params }).filter(
    ([, value]) => value != null && value !== "",
  );
  const path = [page].flat().map(encodeURIComponent).join("/");
  return `#/${path}${all.length === 0 ? "" : `?${new URLSearchParams(all)}`}`;
}

/** Changes some of what the address says; an empty value goes. The page before stays the one that Back leads to. */
export function change(params) {
  const { page, rest, params: now } = route();
  const next = to([page, ...rest], { ...Object.fromEntries(now), ...params });
  history.replaceState(null, "", next);
  dispatchEvent(new HashChangeEvent("hashchange"));
}

/** {app, environment} that the reader has chosen; empty for all. */
export function chosenPlace(params) {
  const [app, environment] = (params.get("in") ?? "").split("/");
  return app && environment ? { app, environment } : {};
}
