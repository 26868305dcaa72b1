/** Loads before all else: a page of which a part did not arrive, as when the network changed meanwhile, is asked for again. */
{
  const AGAIN_MS = 1_000;
  const TIMES_MAX = 5;
  const TRIED = "svc console: asked again";
  addEventListener(
    "error",
    ({ target }) => {
      if (!(target instanceof HTMLScriptElement || target instanceof HTMLLinkElement)) return;
      const tried = Number(sessionStorage.getItem(TRIED) ?? 0);
      if (tried >= TIMES_MAX) return;
      sessionStorage.setItem(TRIED, String(tried + 1));
      setTimeout(() => location.reload(), AGAIN_MS);
    },
    { capture: true },
  );
  addEventListener("load", () => {
    if (document.getElementById("console")?.firstChild) sessionStorage.removeItem(TRIED);
  });
}
