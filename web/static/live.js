// Live values, fresh strips, copy buttons. The server sends finished words; nothing is formatted
// here. The page is complete without this file.
"use strict";
(() => {
  const FRESH_EVERY_MS = 60000;
  const all = (selector, root = document) => Array.from(root.querySelectorAll(selector));
  const byData = (name, value, root) => all(`[data-${name}="${CSS.escape(value)}"]`, root);

  // Copying

  const copy = async (source) => {
    if (navigator.clipboard) {
      await navigator.clipboard.writeText(source.textContent);
      return;
    }
    // Without a secure context there is only the selection.
    const range = document.createRange();
    range.selectNodeContents(source);
    const selection = getSelection();
    selection.removeAllRanges();
    selection.addRange(range);
    document.execCommand("copy");
    selection.removeAllRanges();
  };

  for (const button of all("[data-copy]")) {
    const source = document.getElementById(button.dataset.copy);
    const words = button.textContent;
    button.hidden = false;
    button.addEventListener("click", async () => {
      await copy(source);
      button.textContent = button.dataset.done;
      setTimeout(() => { button.textContent = words; }, 1500);
    });
  }

  // An open formula closes when another opens, on Escape, and on a click elsewhere.

  const closeFormulas = (except) => {
    for (const formula of all("details.formula[open]")) {
      if (formula !== except) formula.open = false;
    }
  };
  document.addEventListener("click", (event) => closeFormulas(event.target.closest("details.formula")));
  document.addEventListener("keydown", (event) => { if (event.key === "Escape") closeFormulas(null); });

  // Live values

  const place = document.querySelector("[data-stream]");
  if (!place) return;

  const showState = (name) => {
    for (const state of all("[data-live-state]")) {
      state.textContent = state.dataset[name];
      state.dataset.liveState = name;
    }
  };

  const showGpu = (row, gpu) => {
    row.classList.toggle("lost", gpu.lost);
    row.classList.toggle("stalled", gpu.stalled);
    for (const cell of all("[data-live]", row)) {
      const name = cell.dataset.live;
      cell.textContent = gpu[name];
      cell.classList.toggle("missing", gpu.missing.includes(name));
    }
    for (const bar of all("[data-bar]", row)) bar.setAttribute("width", gpu.bar);
  };

  const showNode = (node) => {
    const parts = byData("node", node.node);
    for (const part of parts) {
      for (const state of all("[data-state]", part)) state.textContent = node.state_text;
      for (const mark of all("[data-mark]", part)) {
        mark.setAttribute("class", `mark m-${node.state}`);
        mark.firstElementChild.setAttribute("href", `#m-${node.state}`);
      }
      for (const gpu of node.gpus) {
        for (const row of byData("gpu", gpu.uuid, part)) showGpu(row, gpu);
      }
    }
    return parts.length > 0;
  };

  const stream = new EventSource(place.dataset.stream);
  stream.addEventListener("open", () => showState("on"));
  stream.addEventListener("error", () => showState("lost"));
  stream.addEventListener("nodes", (event) => {
    const known = JSON.parse(event.data).map(showNode);
    // The overview lists every node, so one that it lacks has joined since it was loaded.
    if ("everyNode" in place.dataset && known.includes(false) && performance.now() > 10000) {
      location.reload();
    }
  });
  stream.addEventListener("fresh", () => refresh().catch(() => showState("lost")));
  stream.addEventListener("totals", (event) => {
    for (const [name, words] of Object.entries(JSON.parse(event.data))) {
      for (const total of byData("total", name)) total.textContent = words;
    }
  });
  addEventListener("pagehide", () => stream.close());

  // Strips and sums of hours come with the page itself; they are taken from a fresh copy of it.

  const refresh = async () => {
    if (document.hidden || document.querySelector("details.formula[open]")) return;
    const answer = await fetch(location.href, { headers: { accept: "text/html" } });
    if (!answer.ok) return;
    const page = new DOMParser().parseFromString(await answer.text(), "text/html");
    const focusable = (part) => all("a, summary, input, button, [tabindex]", part);
    let refocus = () => {};
    for (const part of all("[data-fresh]")) {
      const fresh = page.getElementById(part.dataset.fresh);
      if (!fresh || fresh.innerHTML === part.innerHTML || "held" in part.dataset) continue;
      // What is being filled in is not taken away; what was opened stays open, the focus stays.
      if (part.querySelector("input:focus")) continue;
      const focused = focusable(part).indexOf(document.activeElement);
      const opened = all("details", part).map((details) => details.open);
      part.replaceChildren(...fresh.childNodes);
      all("details", part).forEach((details, at) => { details.open = opened[at] ?? false; });
      if (focused >= 0) refocus = () => focusable(part)[focused]?.focus({ preventScroll: true });
    }
    document.dispatchEvent(new Event("fresh"));
    refocus();
  };
  setInterval(() => refresh().catch(() => showState("lost")), FRESH_EVERY_MS);
})();
