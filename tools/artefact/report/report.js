"use strict";
// Marks one group in every picture, sorts tables, filters the table of groups. The page reads without it.
(() => {
  const data = JSON.parse(document.getElementById("report-data").textContent);
  const order = data.groups.map((g) => g.id);
  const groups = new Map(data.groups.map((g) => [g.id, g]));
  const make = (tag, properties) => Object.assign(document.createElement(tag), properties);
  const time = (us) => us === null ? "time unknown"
    : us < 1e3 ? `${+us.toPrecision(3)} us` : us < 1e6 ? `${+(us / 1e3).toPrecision(3)} ms` : `${+(us / 1e6).toPrecision(3)} s`;

  const panel = make("div", { id: "choice", hidden: true });
  panel.setAttribute("role", "status");
  const label = make("strong"), facts = make("span"), where = make("a", { textContent: "Details" });
  const clear = make("button", { type: "button", textContent: "Clear" });
  panel.append(label, facts, where, clear);
  const hint = make("div", { id: "hint", hidden: true });
  document.body.append(panel, hint);

  let chosen = null;
  const marked = (id) => document.querySelectorAll(`[data-g="${id}"]`);
  const select = (id) => {
    if (chosen !== null) marked(chosen).forEach((e) => e.classList.remove("selected"));
    chosen = groups.has(id) ? id : null;
    panel.hidden = chosen === null;
    if (chosen === null) return;
    marked(id).forEach((e) => e.classList.add("selected"));
    const g = groups.get(id);
    const share = data.total_us && g.us ? `, ${(100 * g.us / data.total_us).toPrecision(3)} % of the time` : "";
    label.textContent = g.name.length > 120 ? g.name.slice(0, 120) + "\u2026" : g.name;
    facts.textContent = `${g.family}, ${time(g.us)}${share}. ${g.verdict || ""}`;
    where.href = `#g${id}`;
  };
  const open = (id) => {
    const details = document.getElementById(`g${id}`);
    if (details && details.tagName === "DETAILS") details.open = true;
  };
  const opened = () => {
    const match = /^#g(\d+)$/.exec(location.hash);
    if (match) { select(+match[1]); open(match[1]); }
  };
  clear.addEventListener("click", () => select(null));
  where.addEventListener("click", () => open(chosen));
  addEventListener("hashchange", opened);
  opened();

  document.addEventListener("click", (event) => {
    const mark = event.target.closest("svg [data-g], tr[data-g], a[data-g]");
    if (!mark || event.ctrlKey || event.metaKey) return;
    const id = +mark.dataset.g;
    if (mark.closest("svg")) event.preventDefault();  // the picture stays in view
    if (mark.tagName === "A" && !mark.closest("svg")) open(id);
    select(id);
  });
  document.addEventListener("keydown", (event) => {
    if (/^(INPUT|TEXTAREA)$/.test(event.target.tagName) || event.altKey || event.ctrlKey || event.metaKey) return;
    if (event.key === "Escape") { hint.hidden = true; select(null); return; }
    const step = { j: 1, n: 1, k: -1, p: -1 }[event.key];
    if (!step || !order.length) return;
    const at = chosen === null ? (step > 0 ? -1 : order.length) : order.indexOf(chosen);
    select(order[Math.min(order.length - 1, Math.max(0, at + step))]);
  });

  const titles = new WeakMap();  // ours stands in for the browser's, which comes late and not for the keyboard
  document.querySelectorAll("svg title").forEach((t) => {
    titles.set(t.parentNode, t.textContent);
    if (t.parentNode.tagName === "a") t.parentNode.setAttribute("aria-label", t.textContent);
    t.remove();
  });
  const show = (mark, x, y) => {
    hint.textContent = titles.get(mark) || "";
    hint.hidden = !hint.textContent;
    hint.style.left = `${Math.max(4, Math.min(x + 14, innerWidth - hint.offsetWidth - 4))}px`;
    hint.style.top = `${y + 18 + hint.offsetHeight > innerHeight ? Math.max(4, y - hint.offsetHeight - 10) : y + 18}px`;
  };
  document.addEventListener("pointermove", (event) => {
    const mark = event.target.closest && event.target.closest("svg a, svg g");
    if (mark) show(mark, event.clientX, event.clientY); else hint.hidden = true;
  });
  document.addEventListener("focusin", (event) => {
    const mark = event.target.closest("svg a");
    if (!mark) { hint.hidden = true; return; }
    const box = mark.getBoundingClientRect();
    show(mark, box.left, box.bottom - 14);
  });

  const value = (row, column) => {
    const cell = row.cells[column];
    return cell.dataset.v !== undefined ? +cell.dataset.v : cell.textContent.trim();
  };
  document.querySelectorAll("table.sortable").forEach((table) => {
    const heads = [...table.tHead.rows[0].cells];
    heads.forEach((head, column) => {
      const button = make("button", { type: "button", textContent: head.textContent });
      head.replaceChildren(button);
      button.addEventListener("click", () => {
        const numbers = head.classList.contains("n");
        const up = head.getAttribute("aria-sort") === (numbers ? "descending" : null) || (!numbers && head.getAttribute("aria-sort") === "descending");
        heads.forEach((h) => h.removeAttribute("aria-sort"));
        head.setAttribute("aria-sort", up ? "ascending" : "descending");
        const rows = [...table.tBodies[0].rows];
        rows.sort((a, b) => {
          const x = value(a, column), y = value(b, column);
          const by = typeof x === "number" && typeof y === "number" ? x - y : String(x).localeCompare(String(y), undefined, { numeric: true });
          return up ? by : -by;
        });
        table.tBodies[0].append(...rows);
      });
    });
  });

  const table = document.querySelector("#groups table");
  if (table && order.length > 10) {
    const filter = make("input", { id: "filter", type: "search", placeholder: "Only groups whose name holds ..." });
    filter.setAttribute("aria-label", "Filter groups by name");
    table.closest(".scroll").before(filter);
    filter.addEventListener("input", () => {
      const wanted = filter.value.toLowerCase();
      const hides = (e) => {
        const g = groups.get(+e.dataset.g);
        e.hidden = !!wanted && !(g ? g.name : e.textContent).toLowerCase().includes(wanted);
      };
      document.querySelectorAll("#groups tbody tr[data-g], #groups details[data-g]").forEach(hides);
    });
  }
})();
