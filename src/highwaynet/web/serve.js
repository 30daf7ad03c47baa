"use strict";
// Answers the messages of the page: in the worker, or in the page itself if the browser allows no worker.

const serve = (post) => {
  const CHUNK = 12; // milliseconds of counting between two looks at new messages
  let network,
    counter,
    facts,
    samples,
    counting = 0;

  const routeOf = (route) => route || facts.steps.map((_, place) => place);
  const closedOf = (closed) => {
    const set = new Set(closed);
    return facts.steps.map((step) => step.number !== undefined && set.has(step.number));
  };

  const softmax = (values) => {
    const top = Math.max(...values),
      powers = Array.from(values, (value) => Math.exp(value - top));
    const sum = powers.reduce((total, power) => total + power, 0);
    return powers.map((power) => power / sum);
  };

  const handlers = {
    start({ description, floats, inputs, targets }) {
      facts = description;
      network = new Engine.Network(facts, floats);
      counter = new Engine.Network(facts, network.weights); // its own memory, so that counting leaves the last answer as it is
      const size = facts.inputs;
      samples = targets.map((target, place) => ({ target, raw: inputs.subarray(place * size, (place + 1) * size) }));
      post({ type: "ready" });
    },

    // Everything the page shows about one input
    answer({ kind, id, raw, closed, route: given }) {
      const begun = performance.now(),
        route = routeOf(given),
        shut = closedOf(closed);
      const outputs = Float64Array.from(network.outputs(raw, route, shut));
      const count = facts.rows.length,
        columns = facts.columns;
      const gates = new Float32Array(count * columns).fill(NaN),
        states = gates.slice(),
        values = gates.slice();
      facts.rows.forEach((row, place) => {
        const number = route[row.step],
          state = network.states[number];
        Engine.overPlaces(state.y, row.width, values, place * columns);
        if (!state.t.length) return;
        Engine.overPlaces(state.t, row.width, gates, place * columns);
        Engine.overPlaces(state.h, row.width, states, place * columns);
      });
      const estimates = network.estimates(
        route,
        shut,
        facts.rows.map((row) => row.step),
      );
      post({ type: "answer", kind, id, outputs, gates, states, values, estimates, ms: performance.now() - begun });
    },

    // Counts right answers over the samples, in small portions; a new count ends the one before.
    count({ kind, id, closed, route: given, task }) {
      const own = ++counting,
        route = routeOf(given),
        shut = closedOf(closed);
      let done = 0,
        right = 0,
        loss = 0;
      const wrong = [];
      const portion = () => {
        if (own !== counting) return;
        const begun = performance.now();
        while (done < samples.length && performance.now() - begun < CHUNK) {
          const { raw, target } = samples[done++],
            outputs = counter.outputs(raw, route, shut);
          if (task === "regression") loss += (outputs[0] - target) ** 2;
          else {
            const shares = softmax(outputs),
              best = shares.indexOf(Math.max(...shares));
            right += best === target;
            if (best !== target) wrong.push([done - 1, best]);
            loss -= Math.log(Math.max(shares[target], 1e-30));
          }
        }
        post({ type: "count", id, done, total: samples.length, right, loss, wrong: done === samples.length ? wrong : null });
        if (done < samples.length) setTimeout(portion, 0);
      };
      setTimeout(portion, 0);
    },

    // The maps of one block of a convolutional layer, for the last answer
    maps({ kind, id, step: number, block }) {
      const step = facts.steps[number],
        state = network.states[number],
        width = step.out[0];
      const one = (values) =>
        values.length ? Float32Array.from({ length: values.length / width }, (_, place) => values[place * width + block]) : null;
      post({ type: "maps", kind, id, gates: one(state.t), states: one(state.h), values: one(state.y), size: step.out.slice(1) });
    },
  };

  return (message) => handlers[message.type](message);
};
