// Attacks on a small network in the page itself, and the form of charts/attack_form.py that calls them. Names as in attacks/.
(function () {
  // A function of its own, since a worker runs the same source. Arrays are rows, columns, channels.
  function attacks() {
    // The input of a layer has `side` rows and columns; 3x3 convolutions are padded by one, and followed by a ReLU.
    function network(described) {
      const bytes = Uint8Array.from(atob(described.values), (letter) => letter.charCodeAt(0));
      const values = new Float32Array(bytes.buffer);
      let place = 0, side = described.side;
      const take = (count) => values.subarray(place, place += count);
      const layers = described.layers.map(({ inputs, outputs, stride }) => {
        const out = Math.ceil(side / stride);
        const layer = { inputs, outputs, stride, side, out, kernel: take(9 * inputs * outputs), bias: take(outputs) };
        side = out;
        return layer;
      });
      const last = layers[layers.length - 1];
      const features = last.out * last.out * last.outputs;
      const { mean, std, classes } = described;
      return { mean, std, classes, layers, head: take(features * classes), bias: take(classes) };
    }

    // Calls `visit(input, output, kernel)` with the places of each pixel of the output and each pixel of the input that it reads.
    function connect({ inputs, outputs, stride, side, out }, visit) {
      for (let row = 0; row < out; row++) for (let column = 0; column < out; column++) {
        const output = (row * out + column) * outputs;
        for (let up = 0; up < 3; up++) for (let right = 0; right < 3; right++) {
          const y = row * stride + up - 1, x = column * stride + right - 1;
          if (y < 0 || x < 0 || y >= side || x >= side) continue;
          visit((y * side + x) * inputs, output, (up * 3 + right) * inputs * outputs);
        }
      }
    }

    // The inputs of all layers, normalised pixels first, and the logits.
    function forward(network, pixels) {
      let active = Float32Array.from(pixels, (value) => (value - network.mean) / network.std);
      const inputs = [active];
      for (const layer of network.layers) {
        const { outputs, kernel, bias } = layer, before = active;
        const after = new Float32Array(layer.out * layer.out * outputs);
        for (let place = 0; place < after.length; place++) after[place] = bias[place % outputs];
        connect(layer, (input, output, start) => {
          for (let i = 0; i < layer.inputs; i++) {
            const value = before[input + i], row = start + i * outputs;
            if (value !== 0) for (let o = 0; o < outputs; o++) after[output + o] += value * kernel[row + o];
          }
        });
        for (let place = 0; place < after.length; place++) if (after[place] < 0) after[place] = 0;
        inputs.push(active = after);
      }
      const logits = Float32Array.from(network.bias), { classes, head } = network;
      for (let i = 0; i < active.length; i++) {
        if (active[i] !== 0) for (let label = 0; label < classes; label++) logits[label] += active[i] * head[i * classes + label];
      }
      return { inputs, logits };
    }

    // The gradient with respect to the pixels from the one with respect to the logits.
    function backward(network, inputs, slope) {
      const { classes, head, layers } = network, features = inputs[layers.length];
      let gradient = new Float32Array(features.length);
      for (let i = 0; i < features.length; i++) {
        if (features[i] > 0) for (let label = 0; label < classes; label++) gradient[i] += slope[label] * head[i * classes + label];
      }
      for (let place = layers.length - 1; place >= 0; place--) {
        const layer = layers[place], { outputs, kernel } = layer, before = inputs[place], after = gradient;
        const below = new Float32Array(before.length);
        connect(layer, (input, output, start) => {
          for (let i = 0; i < layer.inputs; i++) {
            if (place > 0 && before[input + i] === 0) continue;
            let sum = 0;
            for (let o = 0, row = start + i * outputs; o < outputs; o++) sum += after[output + o] * kernel[row + o];
            below[input + i] += sum;
          }
        });
        gradient = below;
      }
      return gradient.map((value) => value / network.std);
    }

    function softmax(logits) {
      const most = Math.max(...logits), powers = Array.from(logits, (value) => Math.exp(value - most));
      const sum = powers.reduce((total, value) => total + value, 0);
      return powers.map((value) => value / sum);
    }

    const argmax = (values) => values.indexOf(Math.max(...values));

    // The slope of the ascended loss over the logits: cross-entropy, that of a target descended, or a temperature's margin.
    function slope(logits, label, { target, inverse }) {
      if (inverse) {
        const others = softmax(Array.from(logits, (value, one) => (one === label ? -Infinity : value * inverse)));
        return others.map((value, one) => inverse * (value - (one === label)));
      }
      const towards = target === undefined || target === label ? null : target;
      return softmax(logits).map((value, one) => (towards === null ? value - (one === label) : (one === towards) - value));
    }

    function inputGradient(network, pixels, label, options = {}) {
      const { inputs, logits } = forward(network, pixels);
      return { logits, gradient: backward(network, inputs, slope(logits, label, options)) };
    }

    // A point of the ball around an image, the same at each call (mulberry32).
    function uniform(pixels, radius, seed) {
      let state = seed + 1;
      return Float32Array.from(pixels, (value) => {
        state = (state + 0x6d2b79f5) | 0;
        let mixed = Math.imul(state ^ (state >>> 15), 1 | state);
        mixed = (mixed + Math.imul(mixed ^ (mixed >>> 7), 61 | mixed)) ^ mixed;
        return value + radius * (2 * (((mixed ^ (mixed >>> 14)) >>> 0) / 4294967296) - 1);
      });
    }

    // Projected gradient ascent; options: radius, steps, rate (in radii over all steps), start, target, inverse (1 / T).
    function pgd(network, pixels, label, options) {
      const { radius, steps } = options, size = options.rate * radius / steps, courses = [];
      const project = (value, place) => Math.min(Math.max(value, pixels[place] - radius, 0), pixels[place] + radius, 1);
      let moved = Float32Array.from(options.start || pixels).map(project);
      for (let step = 0; step < steps; step++) {
        const { logits, gradient } = inputGradient(network, moved, label, options);
        courses.push(logits);
        moved = moved.map((value, place) => project(value + size * Math.sign(gradient[place]), place));
      }
      courses.push(forward(network, moved).logits);
      return { attacked: moved, logits: courses };
    }

    return { network, forward, inputGradient, pgd, uniform, softmax, argmax };
  }

  // What a worker does: it attacks all images of a job, and leaves it for a newer one.
  function serve(api) {
    const networks = new Map();
    let newest = 0;
    self.onmessage = ({ data: job }) => {
      newest = job.number;
      if (!networks.has(job.name)) networks.set(job.name, api.network(job.network));
      const network = networks.get(job.name);
      let next = 0;
      (function go() {
        if (newest !== job.number) return;
        const done = [];
        for (const until = performance.now() + 30; next < job.images.length && performance.now() < until; next++) {
          const { pixels, label, index } = job.images[next];
          const start = job.options.random ? api.uniform(pixels, job.options.radius, index) : pixels;
          const { logits } = api.pgd(network, pixels, label, { ...job.options, start });
          const clean = api.argmax(api.forward(network, pixels).logits) === label;
          const last = api.argmax(logits[logits.length - 1]), { target } = job.options;
          done.push({ label, clean, fallen: target === undefined ? !clean || last !== label : last === target });
        }
        self.postMessage({ number: job.number, done, ended: next === job.images.length });
        if (next < job.images.length) setTimeout(go);
      })();
    };
  }

  const api = attacks(), SIDE = 8;
  window.classwiseAttacks = api;

  function form(root) {
    root.dataset.ready = "";
    const data = JSON.parse(root.querySelector("script[type='application/json']").textContent);
    const bytes = Uint8Array.from(atob(data.pixels), (letter) => letter.charCodeAt(0));
    const images = data.truth.map((label, index) => {
      const pixels = Float32Array.from(bytes.subarray(index * SIDE * SIDE, (index + 1) * SIDE * SIDE), (value) => value / 255);
      return { index, label, pixels };
    });
    const networks = Object.fromEntries(Object.entries(data.networks).map(([name, one]) => [name, api.network(one)]));
    const field = (name) => root.querySelector(`[name=${name}]`), part = (name) => root.querySelector(`.${name}`);
    const { network, label, image, attack, steps, rate, target, inverse, radius } =
      Object.fromEntries(["network", "label", "image", "attack", "steps", "rate", "target", "inverse", "radius"].map((name) => [name, field(name)]));
    let drawn = null, cursor = [0, 0], number = 0, counts = [], kind = "", waiting = false;

    const ofClass = (one) => images.filter((entry) => entry.label === one);
    const place = () => Math.min(Math.max(1, Math.round(Number(image.value)) || 1), ofClass(Number(label.value)).length);
    const chosen = () => drawn || ofClass(Number(label.value))[place() - 1];
    const percent = (share) => `${Math.round(100 * share)} %`;
    const name = (select) => select.selectedOptions[0].textContent;

    function options() {
      const one = attack.value === "fgsm";
      const result = { radius: Number(radius.value), steps: one ? 1 : Math.min(200, Math.max(1, Math.round(Number(steps.value)) || Number(steps.defaultValue))) };
      result.rate = one ? 1 : Math.min(100, Math.max(0.1, Number(rate.value) || Number(rate.defaultValue)));
      result.random = !one;
      if (attack.value === "targeted") result.target = Number(target.value);
      if (attack.value === "temperature") result.inverse = Math.min(1000, Math.max(0.1, Number(inverse.value) || Number(inverse.defaultValue)));
      return result;
    }

    function attacked(entry) {
      const set = options();
      const start = set.random ? api.uniform(entry.pixels, set.radius, entry.index) : entry.pixels;
      return api.pgd(networks[network.value], entry.pixels, entry.label, { ...set, start });
    }

    function paint(canvas, shade, words) {
      const context = canvas.getContext("2d", { willReadFrequently: true }), picture = context.createImageData(SIDE, SIDE);
      for (let place = 0; place < SIDE * SIDE; place++) {
        picture.data.set([0, 0, 0].fill(Math.round(255 * shade(place))).concat(255), 4 * place);
      }
      context.putImageData(picture, 0, 0);
      canvas.setAttribute("aria-label", words);
    }

    function sentence(entry, [first, sure], [last, surer]) {
      const { radius: r, steps: count, target: towards } = options(), seen = name(network);
      if (drawn && !entry.pixels.some(Boolean)) return "Draw a digit on the left image, and choose which one it is.";
      const label = `${drawn ? "You drew" : "The label is"} ${entry.label}.`;
      if (!r) return `At radius 0 nothing changes: ${seen} sees ${first} (${percent(sure)}). ${label}`;
      const succeeds = towards === undefined ? last !== entry.label : last === towards;
      const verdict = first !== entry.label ? "It is misclassified without an attack" : succeeds ? "The attack succeeds" : "The attack fails";
      const goal = towards === undefined ? "" : ` towards ${towards}`, many = count === 1 ? "one step" : `${count} steps`;
      return `${verdict}: ${seen} sees ${first} (${percent(sure)}) before and ${last} (${percent(surer)}) after ${many}${goal}. ${label}`;
    }

    function show() {
      waiting = false;
      const entry = drawn ? Object.assign(drawn, { label: Number(label.value) }) : chosen();
      const began = performance.now(), found = attacked(entry), took = performance.now() - began;
      const course = found.logits.map(api.softmax), after = course[course.length - 1];
      const before = api.softmax(api.forward(networks[network.value], entry.pixels).logits);
      const [first, last, r] = [api.argmax(before), api.argmax(after), Number(radius.value)];
      paint(part("clean"), (place) => entry.pixels[place], drawn ? drawingAt() : `image of class ${entry.label}`);
      paint(part("change"), (place) => (r ? 0.5 + (found.attacked[place] - entry.pixels[place]) / r / 2 : 0.5), `perturbation of at most ${r}`);
      paint(part("attacked"), (place) => found.attacked[place], `attacked image, classified as ${last}`);
      field("shown").value = r.toFixed(2);
      const role = (one) => (one === entry.label ? "label" : one === last ? "predicted" : "");
      part("said").textContent = sentence(entry, [first, before[first]], [last, after[last]]);
      part("took").textContent = `${took.toFixed(0)} ms`;
      [...part("confidences").children].forEach((row, one) => {
        row.style.setProperty("--before", before[one]);
        row.style.setProperty("--after", after[one]);
        row.className = `bar ${role(one)}`;
        row.lastElementChild.textContent = percent(after[one]);
      });
      const at = (step) => 100 * step / Math.max(1, course.length - 1);
      part("steps").innerHTML = course[0].map((_, one) => {
        const points = course.map((values, step) => `${at(step).toFixed(1)},${(40 - 40 * values[one]).toFixed(1)}`).join(" ");
        return `<polyline class="${role(one)}" points="${points}"/>`;
      }).join("");
      part("steps").setAttribute("aria-label", `Confidence in ${entry.label}, its label, over the steps: ${course.map((values) => percent(values[entry.label])).join(", ")}`);
      for (const [one, hidden] of [["steps", attack.value === "fgsm"], ["rate", attack.value === "fgsm"], ["target", attack.value !== "targeted"], ["inverse", attack.value !== "temperature"]]) {
        field(one).parentElement.hidden = hidden;
      }
      part("one-class").textContent = `Attack all images of class ${label.value}`;
      part("of").textContent = `of ${image.max}`;
    }

    function repaint() {
      if (!waiting) requestAnimationFrame(show);
      waiting = true;
    }

    function refresh() {
      repaint();
      if (kind) attackAll(kind);  // a running count, or a finished one, follows what is chosen
    }

    let worker = null;
    function attackAll(which) {
      kind = which;
      const set = options();
      const wanted = images.filter((entry) => (which === "all" || entry.label === Number(label.value)) && entry.label !== set.target);
      // By turns of the classes, so that all bars move together.
      const turn = new Map(), ranked = wanted.map((entry) => [turn.set(entry.label, (turn.get(entry.label) || 0) + 1).get(entry.label), entry]);
      counts = data.classes.map((_, one) => ({ label: one, images: 0, clean: 0, fallen: 0 }));
      if (!worker) {
        worker = new Worker(URL.createObjectURL(new Blob([`(${serve})((${attacks})())`], { type: "text/javascript" })));
        worker.onmessage = ({ data: part }) => { if (part.number === number) count(part); };
      }
      const sorted = ranked.sort((one, other) => one[0] - other[0]).map(([, entry]) => entry);
      worker.postMessage({ number: ++number, name: network.value, network: data.networks[network.value], images: sorted, options: set });
      count({ done: [] });
    }

    function count({ done, ended }) {
      const { radius: r, target: towards } = options(), fall = towards === undefined ? "fall" : `become ${towards}`;
      for (const { label: one, clean, fallen } of done) {
        counts[one].images += 1;
        counts[one].clean += clean;
        counts[one].fallen += fallen;
      }
      const seen = counts.filter((one) => one.images), share = (one) => one.fallen / one.images;
      const [weakest, ...others] = [...seen].sort((one, other) => share(other) - share(one)), strongest = others[others.length - 1];
      part("classes").classList.toggle("running", !ended);
      [...part("classes").children].forEach((row, one) => {
        const { images: all, clean, fallen } = counts[one];
        row.classList.toggle("idle", !all);
        row.classList.toggle("weakest", Boolean(ended && all && strongest && share(counts[one]) === share(weakest)));
        row.style.setProperty("--fallen", all ? fallen / all : 0);
        row.style.setProperty("--wrong", all ? 1 - clean / all : 0);
        row.lastElementChild.textContent = all ? `${fallen} of ${all} ${fall}` : "";
      });
      const total = (key) => seen.reduce((sum, one) => sum + one[key], 0), all = total("images");
      const recognised = `Of ${all} images ${total("clean")} are recognised without an attack`;
      const tell = () => {
        if (!ended) return `${all} images are attacked …`;
        if (!all) return "Images of the target itself are not attacked.";
        if (!r) return `At radius 0 nothing changes. ${recognised}.`;
        if (!strongest) return `${weakest.fallen} of ${weakest.images} images of class ${weakest.label} ${fall}, ${percent(share(weakest))}.`;
        if (share(weakest) === share(strongest)) return `In all classes ${percent(share(weakest))} of the images ${fall}. ${recognised}, and ${total("fallen")} ${fall}.`;
        const alike = (best) => seen.filter((one) => share(one) === share(best)).map((one) => one.label).join(" and ");
        return `Weakest: class ${alike(weakest)}, where ${percent(share(weakest))} ${fall}. Strongest: class ${alike(strongest)}, ${percent(share(strongest))}. ${recognised}, and ${total("fallen")} ${fall}.`;
      };
      part("total").setAttribute("aria-live", ended ? "polite" : "off");
      part("total").textContent = tell();
    }

    // Drawing, by pointer or keyboard.
    const drawingAt = () => `your drawing, row ${cursor[0] + 1}, column ${cursor[1] + 1}: arrow keys move, space draws`;
    function draw(on) {
      drawn = on ? { index: 0, label: Number(label.value), pixels: new Float32Array(SIDE * SIDE) } : null;
      root.toggleAttribute("data-drawing", on);
      part("clean").tabIndex = on ? 0 : -1;
      part("draw").textContent = on ? "Use an image" : "Draw a digit";
      for (const one of ["hint", "clear"]) part(one).hidden = !on;
      image.parentElement.hidden = on;
      part("which").textContent = on ? "You draw a" : "Class";
      part("clean").setAttribute("role", on ? "application" : "img");
      if (on) part("clean").focus();
      repaint();
    }
    function ink(row, column) {
      for (const [up, right, dose] of [[0, 0, 0.7], [1, 0, 0.15], [-1, 0, 0.15], [0, 1, 0.15], [0, -1, 0.15]]) {
        const [y, x] = [row + up, column + right];
        if (y >= 0 && x >= 0 && y < SIDE && x < SIDE) drawn.pixels[y * SIDE + x] = Math.min(1, drawn.pixels[y * SIDE + x] + dose);
      }
      repaint();
    }
    let under = "";
    function follow(event) {
      if (!drawn || !event.buttons) return;
      const box = part("clean").getBoundingClientRect();
      const [row, column] = [event.clientY - box.top, event.clientX - box.left].map((value, axis) => Math.floor(SIDE * value / (axis ? box.width : box.height)));
      if (under === `${row} ${column}`) return;
      under = `${row} ${column}`;
      ink(row, column);
    }
    part("clean").addEventListener("pointerdown", (event) => { under = ""; follow(event); });
    part("clean").addEventListener("pointermove", follow);
    part("clean").addEventListener("keydown", (event) => {
      const move = { ArrowUp: [-1, 0], ArrowDown: [1, 0], ArrowLeft: [0, -1], ArrowRight: [0, 1], " ": [0, 0] }[event.key];
      if (!drawn || !move) return;
      event.preventDefault();
      cursor = cursor.map((value, axis) => Math.min(SIDE - 1, Math.max(0, value + move[axis])));
      root.style.setProperty("--row", cursor[0]);
      root.style.setProperty("--column", cursor[1]);
      if (event.key === " ") ink(...cursor);
      part("clean").setAttribute("aria-label", drawingAt());
    });
    part("draw").addEventListener("click", () => draw(!drawn));
    part("clear").addEventListener("click", () => draw(true));

    function choose() {
      image.max = ofClass(Number(label.value)).length;
      image.value = place();
      // An image is not attacked towards its own class.
      for (const option of target.options) option.disabled = option.value === label.value;
      if (target.value === label.value) target.value = label.value === "0" ? "1" : "0";
      repaint();
      if (kind === "class" || (kind && attack.value === "targeted")) attackAll(kind);
    }
    label.addEventListener("input", choose);
    image.addEventListener("input", repaint);
    image.addEventListener("change", () => { image.value = place(); });
    // What a field cannot hold becomes what is computed.
    for (const [one, key] of [[steps, "steps"], [rate, "rate"], [inverse, "inverse"]]) one.addEventListener("change", () => { one.value = options()[key]; });
    for (const one of [network, attack, steps, rate, target, inverse, radius]) one.addEventListener("input", refresh);
    part("one-class").addEventListener("click", () => attackAll("class"));
    part("all-classes").addEventListener("click", () => attackAll("all"));

    // It opens on an image that is recognised and that the attack breaks, if there is one.
    const start = images.find((entry) => {
      const right = api.argmax(api.forward(networks[network.value], entry.pixels).logits) === entry.label;
      return right && api.argmax(attacked(entry).logits.slice(-1)[0]) !== entry.label;
    }) || images[0];
    label.value = start.label;
    image.value = ofClass(start.label).indexOf(start) + 1;
    choose();
    new IntersectionObserver(([seen], observer) => {
      if (!seen.isIntersecting) return;
      observer.disconnect();
      if (!kind) attackAll("all");
    }).observe(part("classes"));
  }
  for (const root of document.querySelectorAll(".attack-form:not([data-ready])")) form(root);
})();
