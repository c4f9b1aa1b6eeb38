/*
  Saves reloads, and nothing more: every page works without it.

  data-get      on a link or a GET form: fetch it, put what is found in place, push the address.
                on another element: its value is fetched, by data-on="load" once, by data-every="5" again and again.
  data-target   what is replaced (default: main); data-select: what of the answer replaces it (default: the target).
  data-quiet    the address stays, and a failure is told in place only.
  data-dialog   on a link: the form of the page it leads to is asked in the dialog.
  data-post     on a form: send it, follow to the page it leads to.
  data-live     on a form: the button that is pressed a moment after somebody has typed.
*/
"use strict";
(() => {
  const HEADERS = { "X-Requested-With": "fetch" };
  /* Nobody does anything by it: a session that is only looked at still ends. */
  const LOOKING = { "X-Requested-With": "poll" };
  const dialog = document.getElementById("dialog");
  let latest = 0;

  async function load(address, options) {
    const answer = await fetch(address, { headers: HEADERS, credentials: "same-origin", ...options });
    const text = await answer.text();
    const page = new DOMParser().parseFromString(text, "text/html");
    return { answer, page };
  }

  /* An answer that is no page of the same frame (a sign-in, a page of an error) is gone to as a whole. */
  function isWhole(page, select) {
    return !page.querySelector(select) || page.body.className !== document.body.className;
  }

  function put(page, target, select) {
    const found = page.querySelector(select);
    const place = document.querySelector(target);
    if (!found || !place) return;
    for (const name of ["data-get", "data-on", "data-every"]) {
      if (found.hasAttribute(name)) place.setAttribute(name, found.getAttribute(name));
      else place.removeAttribute(name);
    }
    const open = new Set([...place.querySelectorAll("details[open] > summary")].map((one) => one.textContent));
    place.replaceChildren(...found.childNodes);
    for (const one of place.querySelectorAll("details > summary")) {
      if (open.has(one.textContent)) one.parentElement.open = true;
    }
    begin(place);
  }

  function tell(text) {
    const note = document.createElement("p");
    note.className = "notice refused";
    note.textContent = text;
    document.getElementById("notices")?.replaceChildren(note);
  }

  async function swap(address, { target = "main", select = target, options, isQuiet = false, place } = {}) {
    const asked = isQuiet ? latest : ++latest;
    if (!isQuiet) document.documentElement.dataset.busy = "";
    try {
      const { answer, page } = await load(address, options);
      if (asked !== latest) return;
      if (isWhole(page, select)) {
        if (isQuiet && !answer.redirected) throw new Error(answer.status);
        location.assign(answer.url);
        return;
      }
      put(page, target, select);
      if (isQuiet) {
        place?.removeAttribute("data-stale");
        return;
      }
      document.title = page.title;
      if (answer.url !== location.href) history.pushState({ swapped: true }, "", answer.url);
      for (const link of document.querySelectorAll("#nav [aria-current]")) link.removeAttribute("aria-current");
      for (const link of page.querySelectorAll("#nav [aria-current]")) {
        document.querySelector(`#nav a[href="${CSS.escape(link.getAttribute("href"))}"]`)?.setAttribute("aria-current", "page");
      }
    } catch {
      if (isQuiet) {
        if (place) place.dataset.stale = `Not refreshed since ${new Date().toISOString().slice(11, 19)} UTC`;
      } else tell("The server does not answer. What is shown is as it was.");
    } finally {
      if (!isQuiet) delete document.documentElement.dataset.busy;
    }
  }

  function aims(element) {
    const target = element.dataset.target || "main";
    return { target, select: element.dataset.select || target };
  }

  /* What loads itself: once, or as long as the tab is looked at. */
  const timers = new WeakMap();
  function begin(within) {
    for (const place of [within, ...within.querySelectorAll("[data-get]")]) {
      if (!(place instanceof HTMLElement) || !place.dataset.get) continue;
      if (place.dataset.on === "load") {
        place.removeAttribute("data-on");
        swap(place.dataset.get, { ...aims(place), isQuiet: true, place });
      }
      if (place.dataset.every && !timers.has(place)) {
        timers.set(place, setInterval(() => {
          if (!place.isConnected || !place.dataset.every) {
            clearInterval(timers.get(place));
            timers.delete(place);
          } else if (!document.hidden && !dialog.open) {
            swap(place.dataset.get, { ...aims(place), isQuiet: true, place, options: { headers: LOOKING } });
          }
        }, Number(place.dataset.every) * 1000));
      }
    }
  }

  function showDialog(page) {
    const asked = page.querySelector("#confirm");
    dialog.replaceChildren(...asked.childNodes);
    if (!dialog.open) dialog.showModal();
    dialog.querySelector("[autofocus]")?.focus();
  }

  async function ask(link) {
    try {
      const { answer, page } = await load(link.href);
      if (page.querySelector("#confirm")) showDialog(page);
      else location.assign(answer.url);
    } catch {
      tell("The server does not answer. Nothing was changed.");
    }
  }

  async function send(form, button) {
    if (form.dataset.sent) return;
    form.dataset.sent = "yes";
    const body = new URLSearchParams(new FormData(form, button));
    try {
      const { answer, page } = await load(form.action, { method: "POST", body });
      if (page.querySelector("#confirm")) {
        showDialog(page);
        return;
      }
      if (dialog.open) dialog.close();
      if (isWhole(page, "main")) {
        location.assign(answer.url);
        return;
      }
      latest += 1;
      put(page, "main", "main");
      document.title = page.title;
      if (answer.url !== location.href) history.pushState({ swapped: true }, "", answer.url);
    } catch {
      if (dialog.open) dialog.close();
      tell("The server does not answer. Look whether it was done before you try again.");
    } finally {
      delete form.dataset.sent;
    }
  }

  document.addEventListener("click", (event) => {
    const link = event.target.closest("a");
    if (!link || event.defaultPrevented || event.button || event.ctrlKey || event.metaKey || event.shiftKey) return;
    if (link.hasAttribute("data-close") && dialog.open) {
      event.preventDefault();
      dialog.close();
    } else if (link.hasAttribute("data-menu")) {
      event.preventDefault();
      const isOpen = document.getElementById("nav").classList.toggle("open");
      link.setAttribute("aria-expanded", String(isOpen));
    } else if (link.hasAttribute("data-dialog")) {
      event.preventDefault();
      ask(link);
    } else if (link.hasAttribute("data-get")) {
      event.preventDefault();
      swap(link.href, aims(link));
    }
  });

  document.addEventListener("submit", (event) => {
    const form = event.target;
    if (form.hasAttribute("data-post")) {
      event.preventDefault();
      send(form, event.submitter);
    } else if (form.hasAttribute("data-themes")) {
      event.preventDefault();
      const { value } = event.submitter;
      document.documentElement.dataset.theme = value;
      for (const one of form.querySelectorAll("button")) one.setAttribute("aria-pressed", String(one === event.submitter));
      fetch(form.action, { method: "POST", headers: HEADERS, redirect: "manual", body: new URLSearchParams({ theme: value }) })
        .catch(() => tell("The choice of colours is not remembered: the server does not answer."));
    } else if (form.hasAttribute("data-get")) {
      event.preventDefault();
      const asked = new URLSearchParams([...new FormData(form)].filter(([, value]) => value.trim()));
      swap(`${form.getAttribute("action")}?${asked}`, aims(form));
    }
  });

  document.addEventListener("change", (event) => {
    if (event.target.matches("form[data-get] select")) event.target.form.requestSubmit();
  });

  /* A form that shows what it comes to: pressed a moment after the last key. */
  let live = 0;
  function showLive(form) {
    clearTimeout(live);
    live = setTimeout(() => document.querySelector(form.dataset.live)?.click(), 300);
  }
  document.addEventListener("input", (event) => {
    const form = event.target.closest("form[data-live]");
    if (form) showLive(form);
  });
  for (const form of document.querySelectorAll("form[data-live]")) showLive(form);

  addEventListener("popstate", () => location.reload());

  document.addEventListener("keydown", (event) => {
    if (event.key !== "/" || event.ctrlKey || event.metaKey || event.altKey) return;
    if (event.target.closest("input, textarea, select")) return;
    const search = document.querySelector("main input[type=search]");
    if (!search) return;
    event.preventDefault();
    search.select();
  });

  dialog.addEventListener("click", (event) => {
    if (event.target === dialog) dialog.close();
  });

  /* What a moment is here, and how long ago: said when somebody looks, so that it is never out of date. */
  const UNITS = [["day", 86400], ["hour", 3600], ["minute", 60], ["second", 1]];
  function ago(at) {
    const seconds = (at - Date.now()) / 1000;
    const [unit, size] = UNITS.find(([, size]) => Math.abs(seconds) >= size) || UNITS[3];
    return new Intl.RelativeTimeFormat("en", { numeric: "always" }).format(Math.round(seconds / size), unit);
  }
  document.addEventListener("pointerover", (event) => {
    const time = event.target.closest?.("time");
    if (!time) return;
    const at = new Date(time.dateTime);
    time.title = `${at.toLocaleString()} here, ${ago(at)}`;
  });

  begin(document.body);
})();
