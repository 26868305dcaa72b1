/** Hands in the code of a one-time link, which stands behind the #, and goes on to the console. */
const said = document.getElementById("login");
const code = location.hash.slice(1);
history.replaceState(null, "", location.pathname);

async function enter() {
  const response = await fetch("/console/login", {
    method: "POST",
    headers: { "content-type": "application/json" },
    body: JSON.stringify({ code }),
  });
  if (response.ok) return location.replace("/");
  const { detail, help = "" } = await response.json();
  said.textContent = `${detail} ${help}`;
}

enter().catch(() => {
  said.textContent = "The platform does not answer.";
});
