"use strict";
(() => {
  const every = 5000;
  // The viewer's clock may be wrong, so everything is counted from the database's.
  let ahead = 0;
  const take = (main) => {
    if (main.dataset.now) ahead = Date.parse(main.dataset.now) - Date.now();
  };
  const units = [["d", 86400, "h", 3600], ["h", 3600, "m", 60], ["m", 60, "s", 1]];
  const short = (seconds) => {
    for (const [unit, size, smaller, its] of units) {
      if (seconds >= size) {
        return Math.floor(seconds / size) + unit + String(Math.floor((seconds % size) / its)).padStart(2, "0") + smaller;
      }
    }
    return seconds + "s";
  };
  const day = new Intl.DateTimeFormat(undefined, {year: "numeric", month: "2-digit", day: "2-digit"});
  const full = new Intl.DateTimeFormat(undefined, {dateStyle: "medium", timeStyle: "long"});
  const clock = new Intl.DateTimeFormat(undefined, {hour: "2-digit", minute: "2-digit", second: "2-digit", hour12: false});
  const show = () => {
    const now = new Date(Date.now() + ahead);
    for (const time of document.querySelectorAll("time")) {
      const at = new Date(time.dateTime);
      if ("count" in time.dataset) {
        const left = Math.trunc((at - now) / 1000);
        time.textContent = left > 0 ? "in " + short(left) : time.dataset.count + short(-left) + " ago";
      } else if (!time.title) {
        time.textContent = (day.format(at) === day.format(now) ? "" : day.format(at) + " ") + clock.format(at);
      }
      if (!time.title) time.title = full.format(at);
    }
  };
  const busy = () => {
    const open = document.querySelector("#live details[open]");
    const typing = document.activeElement && document.activeElement.matches("#live input, #live summary, #live button");
    return open || typing || String(getSelection()) !== "";
  };
  const fresh = document.getElementById("fresh");
  const refresh = async () => {
    if (document.hidden || busy() || document.querySelector(".sign-in")) return;
    try {
      const here = new URL(location.href);
      here.searchParams.delete("said");
      const answer = await fetch(here, {headers: {Accept: "text/html"}, cache: "no-store"});
      // Only this part: the new page's styles have a nonce that this document's policy does not accept.
      const found = /<main[^]*<\/main>/.exec(await answer.text());
      const page = found && new DOMParser().parseFromString(found[0], "text/html").getElementById("live");
      if (!page || busy()) return;
      const main = document.getElementById("live");
      const focused = document.activeElement && document.activeElement.getAttribute("href");
      take(page);
      main.replaceWith(document.adoptNode(page));
      if (focused) {
        for (const link of page.querySelectorAll("a")) if (link.getAttribute("href") === focused) { link.focus(); break; }
      }
      fresh.textContent = "Up to date, refreshed every 5 seconds.";
      show();
    } catch {
      fresh.textContent = "The service does not answer. Trying again.";
    }
  };
  take(document.getElementById("live"));
  fresh.textContent = "Refreshed every 5 seconds.";
  show();
  setInterval(show, 1000);
  setInterval(refresh, every);
})();
