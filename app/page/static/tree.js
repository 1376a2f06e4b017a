// A tree as a river: its width is the share of the instances, its colour the class. Branches open and close.

import { h, count, number, percent } from "./format.js";

const COLUMN = 124, NARROW = 84, LETTER = 6.6, WORDS = 16, SIDE = 280, ROW = 24, KNOB = 5, OPEN = 14;

function top(node, classes) {
  if (typeof node.value !== "object" || node.value === null) return { label: number(node.value), share: null, index: -1 };
  const total = Object.values(node.value).reduce((a, b) => a + b, 0);
  const [name, weight] = Object.entries(node.value).sort((a, b) => b[1] - a[1])[0] ?? ["–", 0];
  return { label: name, share: total ? weight / total : null, index: classes ? classes.indexOf(name) : 0 };
}

export class River {
  // width : of the place where it will stand, pixels.
  constructor(tree, classes, width) {
    const deepest = Math.max(1, Math.floor(((width > 900 ? width - SIDE : width) - 200) / COLUMN) - 2);
    const depth = [0];
    tree.nodes.forEach((node, at) => node.children.forEach((child) => { depth[child] = depth[at] + 1; }));
    this.nodes = tree.nodes;
    this.classes = classes;
    this.chosen = 0;
    this.open = new Set();
    // The heaviest branches first, as many as one can look at.
    const queue = [0];
    while (queue.length && this.open.size < OPEN) {
      queue.sort((a, b) => this.nodes[b].weight - this.nodes[a].weight);
      const at = queue.shift();
      if (!this.nodes[at].children.length || depth[at] > deepest) continue; // leaves and their counts stay in sight
      this.open.add(at);
      queue.push(...this.nodes[at].children);
    }
    this.picture = h("div", { class: "tree" });
    this.side = h("div", { class: "side", "aria-live": "polite" });
    this.element = h("div", { class: "tree-grid" }, this.picture, this.side);
    this.draw();
  }

  all(open) {
    this.open = new Set(open ? this.nodes.map((_, i) => i).filter((i) => this.nodes[i].children.length).slice(0, 400) : [0]);
    this.draw();
  }

  // What a node asks, short enough for a column; the whole of it is beside the picture.
  split(at) {
    const { children, feature } = this.nodes[at];
    if (children.length > 2 && feature) return feature;
    const text = this.nodes[children[0]].if.replace(", or missing", "").replace(/-?\d+\.\d+(e-?\d+)?/g, (found) => String(Number(Number(found).toPrecision(3))));
    return text.length > WORDS + 8 ? `${text.slice(0, WORDS + 7)}…` : text;
  }

  path(at) {
    const found = [];
    for (let i = at; i !== null && i !== undefined; i = this.nodes[i].parent) found.unshift(i);
    return found;
  }

  choose(at, toggle) {
    this.chosen = at;
    if (toggle && this.nodes[at].children.length) {
      if (this.open.has(at)) this.open.delete(at);
      else this.open.add(at);
    }
    this.draw(at);
  }

  draw(focus) {
    const nodes = this.nodes, total = nodes[0].weight || 1;
    const rows = [], place = new Map();
    let deepest = 0;
    const leaves = (at) => (this.open.has(at) ? nodes[at].children.flatMap(leaves) : [at]);
    const shown = leaves(0);
    const spare = Math.max(360, shown.length * ROW * 0.9);
    let y = 10;
    for (const at of shown) {
      const height = Math.max(ROW, (nodes[at].weight / total) * spare);
      rows.push([at, y, height]);
      y += height;
    }
    const bottom = y + 10;
    for (const [at, start, height] of rows) place.set(at, [start, height]);
    const spread = (at) => {
      if (!place.has(at)) {
        const parts = nodes[at].children.map(spread);
        const last = parts[parts.length - 1];
        place.set(at, [parts[0][0], last[0] + last[1] - parts[0][0]]);
      }
      return place.get(at);
    };
    spread(0);
    const depth = new Map([[0, 0]]);
    const order = [0];
    for (let i = 0; i < order.length; i++) {
      if (!this.open.has(order[i])) continue;
      for (const child of nodes[order[i]].children) {
        depth.set(child, depth.get(order[i]) + 1);
        deepest = Math.max(deepest, depth.get(child));
        order.push(child);
      }
    }
    const longest = Math.max(0, ...order.filter((at) => this.open.has(at)).map((at) => this.split(at).length));
    const least = Math.min(COLUMN, Math.max(NARROW, 18 + LETTER * longest));
    const width = Math.max(this.picture.clientWidth || 700, 200 + least * (deepest + 1));
    const column = (width - 200) / (deepest + 1);
    const right = 20 + column * (deepest + 1);
    const thick = (at) => Math.max(2, (nodes[at].weight / total) * (bottom - 20) * 0.8);
    const middle = (at) => place.get(at)[0] + place.get(at)[1] / 2;
    const path = new Set(this.path(this.chosen));
    const flows = [], words = [], knobs = [];
    for (const at of order) {
      const { index, share, label } = top(nodes[at], this.classes);
      const x = 20 + column * depth.get(at), end = this.open.has(at) ? x + column : right;
      const half = thick(at) / 2;
      const flow = h("path", {
        class: "flow", d: this.ribbon(at, x, end, half, nodes, middle, thick, column),
        fill: `var(${index < 0 ? "--slate2" : `--m${(index + 1) % 5}`})`,
        opacity: (path.has(at) && this.chosen ? 0.75 : 0.14 + 0.3 * (share === null ? 0.5 : Math.max(0, 2 * share - 1))).toFixed(2),
        onclick: () => this.choose(at, false),
      });
      flows.push(flow);
      const children = nodes[at].children;
      if (this.open.has(at)) {
        const text = this.split(at);
        words.push(h("text", { class: "halo", x: x + 8, y: Math.max(12, middle(at) - half - 4), "font-weight": path.has(at) ? 650 : 400 }, text));
      } else {
        const said = share === null ? label : `${label} ${percent(share, 0)}`;
        words.push(h("text", { x: right + 12, y: middle(at) + 4, "font-weight": at === this.chosen ? 650 : 400 }, said));
        words.push(h("text", { x: width - 8, y: middle(at) + 4, "text-anchor": "end", fill: "currentColor" }, count(nodes[at].weight)));
      }
      const name = `${at === 0 ? "whole tree" : nodes[at].if}, ${label} ${share === null ? "" : percent(share, 0)}, ${count(nodes[at].weight)} instances`;
      knobs.push(h("circle", {
        class: "knob", cx: this.open.has(at) ? x : right, cy: middle(at), r: children.length ? KNOB : 3, tabindex: 0, role: "button",
        "aria-label": name, "aria-expanded": children.length ? String(this.open.has(at)) : null, "data-at": at,
        onclick: () => this.choose(at, true), onkeydown: (event) => this.press(event, at),
      }));
    }
    const svg = h("svg", { width, height: bottom, viewBox: `0 0 ${width} ${bottom}`, role: "group", "aria-label": "the tree, branch by branch" }, flows, words, knobs);
    this.picture.replaceChildren(svg);
    if (focus !== undefined) this.picture.querySelector(`[data-at="${focus}"]`)?.focus();
    this.tell();
  }

  ribbon(at, x, end, half, nodes, middle, thick, column) {
    const parent = nodes[at].parent, y = middle(at);
    if (parent === null) return `M${x},${y - half}H${end}V${y + half}H${x}Z`;
    // It leaves its parent at its share of the parent's width.
    let begin = middle(parent) - nodes[parent].children.reduce((sum, child) => sum + thick(child), 0) / 2;
    for (const child of nodes[parent].children) {
      if (child === at) break;
      begin += thick(child);
    }
    const bend = x + column * 0.35, control = x + column * 0.17;
    return `M${x},${begin}C${control},${begin} ${control},${y - half} ${bend},${y - half}H${end}V${y + half}H${bend}C${control},${y + half} ${control},${begin + 2 * half} ${x},${begin + 2 * half}Z`;
  }

  press(event, at) {
    const node = this.nodes[at];
    const siblings = node.parent === null ? [at] : this.nodes[node.parent].children;
    const to = {
      ArrowLeft: node.parent, ArrowRight: node.children[0], Home: 0,
      ArrowUp: siblings[siblings.indexOf(at) - 1], ArrowDown: siblings[siblings.indexOf(at) + 1],
    }[event.key];
    if (event.key === "Enter" || event.key === " ") this.choose(at, true);
    else if (to !== undefined && to !== null) {
      if (event.key === "ArrowRight") this.open.add(at);
      this.choose(to, false);
    } else return;
    event.preventDefault();
  }

  tell() {
    const node = this.nodes[this.chosen], total = this.nodes[0].weight || 1;
    const { label, share } = top(node, this.classes);
    const rules = this.path(this.chosen).slice(1).map((at) => h("li", {}, this.nodes[at].if));
    this.side.replaceChildren(
      h("div", { class: "note" }, node.children.length ? (node.feature ? `Splits on ${node.feature}` : "Splits") : "Leaf"),
      h("div", { class: "big" }, share === null ? label : `${label} ${percent(share, 0)}`),
      h("div", { class: "note" }, `${count(node.weight)} instances, ${percent(node.weight / total, 0)} of all`),
      rules.length ? h("ol", {}, rules) : h("p", { class: "note" }, "Choose a branch to follow it; a circle opens and closes it."),
    );
  }
}
