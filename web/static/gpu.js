// A GPU's charts: a crosshair that all of them share, and zoom by dragging, touch or keys. Every
// word and number comes finished from the server; a zoom is the same page over another range,
// fetched and put in place. The page is complete without this file.
"use strict";
(() => {
  const range = document.getElementById("range");
  if (!range) return;
  const SVG = "http://www.w3.org/2000/svg";
  const DRAG_PX = 5;
  const all = (selector, root = document) => Array.from(root.querySelectorAll(selector));

  // What is drawn now; `bind` reads it again whenever the charts are replaced.
  let charts = null;
  let times = [];
  let gaps = [];
  let words = [];
  let column = null;
  // The other end of a selection, and the drag that makes it.
  let anchor = null;
  let drag = null;
  // The number of the last load; an answer to an earlier one comes too late.
  let loads = 0;

  const number = (name) => Number(charts.dataset[name]);
  const span = () => number("end") - number("start");
  const clamp = (value, least, most) => Math.min(Math.max(value, least), most);
  const startOf = (index) => Math.min(number("start") + index * number("bucket"), number("end"));
  const percent = (ms) => `${((ms - number("start")) / span()) * 100}%`;

  const bind = () => {
    charts = document.getElementById("charts");
    [column, anchor, drag] = [null, null, null];
    range.removeAttribute("data-held");
    if (!charts) return;
    times = charts.dataset.times.split("|");
    gaps = charts.dataset.gaps === "" ? [] : charts.dataset.gaps.split("|").map((gap) => {
      const [, first, last, text] = /^(\d+)-(\d+)=(.*)$/.exec(gap);
      return { first: Number(first), last: Number(last), text };
    });
    words = all("[data-words]", charts).map((place) => ({
      value: place.querySelector("[data-value]"),
      values: place.dataset.words.split("|"),
    }));
    const readout = charts.querySelector("[data-readout]");
    readout.hidden = false;
    readout.textContent = readout.dataset.help;
    for (const plot of all("[data-plot]", charts)) {
      const svg = document.createElementNS(SVG, "svg");
      svg.setAttribute("class", "over");
      svg.setAttribute("aria-hidden", "true");
      svg.append(shape("rect", "selection"), shape("line", "cross"));
      plot.append(svg);
      plot.tabIndex = 0;
      plot.setAttribute("role", "slider");
      plot.setAttribute("aria-label", plot.firstElementChild.getAttribute("aria-label"));
      plot.setAttribute("aria-valuemin", "0");
      plot.setAttribute("aria-valuemax", String(times.length - 1));
      plot.setAttribute("aria-valuenow", "0");
    }
  };

  const shape = (name, kind) => {
    const element = document.createElementNS(SVG, name);
    element.setAttribute("class", kind);
    element.setAttribute("visibility", "hidden");
    element.setAttribute(name === "rect" ? "height" : "y2", "100%");
    return element;
  };

  // Reading

  const readoutOf = (index) => {
    const here = gaps.filter((gap) => gap.first <= index && index <= gap.last);
    return [times[index], ...here.map((gap) => gap.text)].join(" · ");
  };

  const selected = () => {
    if (anchor === null || column === null) return null;
    const [first, last] = [Math.min(anchor, column), Math.max(anchor, column)];
    return { first, last, start: startOf(first), end: startOf(last + 1) };
  };

  const show = (focused) => {
    const chosen = selected();
    // live.js leaves charts alone that are being read.
    range.toggleAttribute("data-held", column !== null);
    const readout = charts.querySelector("[data-readout]");
    if (column === null) readout.textContent = readout.dataset.help;
    else if (chosen && anchor !== column) readout.textContent = `${times[chosen.first]} – ${times[chosen.last + 1] ?? times[chosen.last]}`;
    else readout.textContent = readoutOf(column);
    for (const { value, values } of words) {
      value.textContent = column === null ? "" : values[column] || "–";
    }
    for (const cross of all(".cross", charts)) {
      cross.setAttribute("visibility", column === null ? "hidden" : "visible");
      if (column === null) continue;
      const x = percent(Math.min(startOf(column) + number("bucket") / 2, number("end")));
      cross.setAttribute("x1", x);
      cross.setAttribute("x2", x);
    }
    for (const rect of all(".selection", charts)) {
      rect.setAttribute("visibility", chosen ? "visible" : "hidden");
      if (!chosen) continue;
      rect.setAttribute("x", percent(chosen.start));
      rect.setAttribute("width", `${((chosen.end - chosen.start) / span()) * 100}%`);
    }
    if (focused && column !== null) {
      const section = focused.closest(".chart");
      const values = all("[data-words]", section).map((place) => {
        const value = place.querySelector("[data-value]").textContent;
        return `${place.querySelector("span").textContent} ${value}`;
      });
      focused.setAttribute("aria-valuenow", String(column));
      focused.setAttribute("aria-valuetext", [readout.textContent, ...values].join(", "));
    }
  };

  const columnAt = (plot, x) => {
    const box = plot.getBoundingClientRect();
    const ms = clamp((x - box.left) / box.width, 0, 1) * span();
    return clamp(Math.floor(ms / number("bucket")), 0, times.length - 1);
  };

  // Zooming

  const announce = (text) => { document.querySelector("[data-announce]").textContent = text; };

  const iso = (ms) => `${new Date(ms).toISOString().slice(0, 19)}Z`;

  // Where the focus was: the chart of the same name, the link with the same words.
  const same = (focus) => {
    if (!focus) return null;
    const chart = focus.closest(".chart")?.id;
    if (chart) return document.getElementById(chart)?.querySelector("[data-plot]");
    return all("a", range).find((link) => link.textContent === focus.textContent);
  };

  const load = async (url, push) => {
    const turn = ++loads;
    range.setAttribute("aria-busy", "true");
    try {
      const answer = await fetch(url, { headers: { accept: "text/html" } });
      if (!answer.ok) throw new Error(String(answer.status));
      const page = new DOMParser().parseFromString(await answer.text(), "text/html");
      if (turn !== loads) return;
      const focus = range.contains(document.activeElement) ? document.activeElement : null;
      const fresh = page.getElementById("range");
      range.replaceChildren(...fresh.childNodes);
      if ("fresh" in fresh.dataset) range.dataset.fresh = "range";
      else delete range.dataset.fresh;
      // Whatever else says the range: the choice of language and zone, pausing, the files.
      for (const selector of [".tools", "footer"]) {
        const part = page.querySelector(selector);
        if (part) document.querySelector(selector).replaceWith(part);
      }
      const [old, pause] = [document, page].map((root) => root.querySelector("[data-pause]"));
      if (old && pause) old.href = pause.href;
      if (push) history.pushState({ zoomed: true }, "", url);
      bind();
      same(focus)?.focus({ preventScroll: true });
      announce(document.querySelector("[data-range-title]").textContent);
    } catch {
      if (turn === loads) location.assign(url);
    } finally {
      if (turn === loads) range.removeAttribute("aria-busy");
    }
  };

  const zoomTo = (start, end) => {
    // Whole seconds around what was chosen, and never less than the server tells.
    let [from, to] = [Math.floor(start / 1000) * 1000, Math.ceil(end / 1000) * 1000];
    const lacking = number("least") - (to - from);
    if (lacking > 0) {
      from -= Math.ceil(lacking / 2000) * 1000;
      to = from + number("least");
    }
    const url = new URL(location.href);
    url.searchParams.delete("last");
    url.searchParams.set("from", iso(from));
    url.searchParams.set("to", iso(to));
    announce(charts.dataset.loading);
    load(url.href.replaceAll("%3A", ":"), true);
  };

  addEventListener("popstate", () => load(location.href, false));

  // Links to other ranges are taken in place too.
  range.addEventListener("click", (event) => {
    const link = event.target.closest("a[href]");
    if (!link || event.ctrlKey || event.metaKey || event.shiftKey || event.button !== 0) return;
    const url = new URL(link.href);
    if (url.pathname !== location.pathname) return;
    event.preventDefault();
    load(url.href, true);
  });

  // Pointer

  const plotOf = (event) => event.target.closest?.("[data-plot]");

  range.addEventListener("pointerdown", (event) => {
    const plot = plotOf(event);
    if (!plot || event.button !== 0) return;
    plot.setPointerCapture(event.pointerId);
    drag = { plot, id: event.pointerId, x: event.clientX, moved: false };
    column = columnAt(plot, event.clientX);
    anchor = null;
    show();
  });

  range.addEventListener("pointermove", (event) => {
    const plot = drag?.plot ?? plotOf(event);
    if (!plot) return;
    const here = columnAt(plot, event.clientX);
    if (drag && !drag.moved && Math.abs(event.clientX - drag.x) >= DRAG_PX) {
      drag.moved = true;
      anchor = columnAt(plot, drag.x);
    }
    column = here;
    show();
  });

  range.addEventListener("pointerup", () => {
    const chosen = drag?.moved ? selected() : null;
    drag = null;
    if (chosen) zoomTo(chosen.start, chosen.end);
  });

  document.addEventListener("pointerdown", (event) => {
    if (!charts || column === null || plotOf(event)) return;
    [column, anchor] = [null, null];
    show();
  });

  range.addEventListener("pointercancel", () => {
    [drag, anchor] = [null, null];
    if (charts) show();
  });

  range.addEventListener("pointerout", (event) => {
    // A finger that is lifted leaves the crosshair where it was.
    if (drag || !charts || anchor !== null || event.pointerType === "touch") return;
    if (plotOf(event) && !event.relatedTarget?.closest?.("[data-plot]") && document.activeElement !== plotOf(event)) {
      column = null;
      show();
    }
  });

  // Keys

  const STEPS = { ArrowLeft: -1, ArrowRight: 1, PageUp: -20, PageDown: 20, Home: -Infinity, End: Infinity };

  range.addEventListener("keydown", (event) => {
    const plot = plotOf(event);
    if (!plot || event.altKey || event.ctrlKey || event.metaKey) return;
    if (event.key in STEPS) {
      const last = times.length - 1;
      const from = column ?? (STEPS[event.key] > 0 ? -1 : last + 1);
      if (event.shiftKey) anchor ??= clamp(from, 0, last);
      else anchor = null;
      column = clamp(from + STEPS[event.key], 0, last);
      show(plot);
    } else if (event.key === "Enter") {
      const chosen = selected();
      if (chosen && chosen.first !== chosen.last) {
        zoomTo(chosen.start, chosen.end);
      } else if (column !== null) {
        // A quarter of the range around the crosshair.
        const middle = startOf(column) + number("bucket") / 2;
        const start = clamp(middle - span() / 8, number("start"), number("end") - span() / 4);
        zoomTo(start, start + span() / 4);
      }
    } else if (event.key === "Escape") {
      if (anchor !== null || drag) {
        [anchor, drag] = [null, null];
        show(plot);
      } else if (history.state?.zoomed) {
        history.back();
      } else return;
    } else return;
    event.preventDefault();
  });

  range.addEventListener("focusout", (event) => {
    if (!charts || drag || event.relatedTarget?.closest?.("[data-plot]")) return;
    [column, anchor] = [null, null];
    show();
  });

  // live.js takes fresh charts each minute where the range moves on.
  document.addEventListener("fresh", () => {
    if (document.getElementById("charts") !== charts) bind();
  });

  bind();
})();
