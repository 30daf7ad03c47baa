"use strict";
// The answer card of one network: probabilities, or the number of a regression.

const softmax = (values) => {
  const top = Math.max(...values),
    powers = Array.from(values, (value) => Math.exp(value - top));
  const sum = powers.reduce((total, power) => total + power, 0);
  return powers.map((power) => power / sum);
};

class AnswerCard {
  static MOST = 10; // classes shown

  constructor(input, network, several, colour) {
    Object.assign(this, { input });
    this.headline = make("p", { className: "headline" });
    this.verdict = make("p", { className: "verdict soft" });
    this.bars = make("ol", { className: "bars" });
    this.bars.setAttribute("aria-label", "Probability of each class");
    this.bars.style.setProperty("--name", `${Math.min(10, 1.9 + 0.7 * Math.max(0, ...input.classes.map((name) => name.length)))}em`);
    const title = several ? network.title : "Its answer";
    this.element = make(
      "section",
      { className: "card answer" },
      make("h2", {}, make("span", { className: "step", textContent: "2", "aria-hidden": "true" }), " ", title),
      this.headline,
      this.verdict,
      input.task === "classification" ? this.bars : null,
    );
    this.element.setAttribute("aria-label", `Answer of the ${network.title} network`);
    if (colour) this.element.classList.add(colour);
  }

  // outputs of the network; truth: class number, standardised number, or null if it is unknown
  show(outputs, truth) {
    if (this.input.task === "regression") return this.number(outputs[0], truth);
    const { classes } = this.input,
      shares = softmax(outputs),
      best = shares.indexOf(Math.max(...shares));
    this.headline.replaceChildren(
      make("span", { textContent: "It says " }),
      make("b", { textContent: Format.shortened(classes[best], 40) }),
      make("span", { className: "soft", textContent: ` ${AnswerCard.sure(shares[best])}` }),
    );
    this.verdict.textContent =
      truth === null
        ? ""
        : truth === best
          ? "✓ Right: so says the label of this sample."
          : `✗ Wrong: the label of this sample is ${Format.shortened(classes[truth], 40)}.`;
    this.verdict.classList.toggle("wrong", truth !== null && truth !== best);
    let shown = classes.map((_, place) => place);
    if (shown.length > AnswerCard.MOST) shown = shown.sort((a, b) => shares[b] - shares[a]).slice(0, AnswerCard.MOST);
    if (this.bars.children.length !== shown.length) {
      this.bars.replaceChildren(
        ...shown.map(() =>
          make(
            "li",
            {},
            make("span", { className: "name" }),
            make("span", { className: "track" }, make("span", { className: "fill" })),
            make("span", { className: "value" }),
          ),
        ),
      );
    }
    shown.forEach((number, place) => {
      const item = this.bars.children[place],
        [name, track, value] = item.children;
      name.textContent = Format.shortened(classes[number], 24);
      name.title = classes[number];
      track.firstChild.style.width = `${100 * shares[number]}%`;
      value.textContent = Format.percent(shares[number]);
      item.classList.toggle("best", number === best);
      item.classList.toggle("truth", number === truth);
    });
    return `${classes[best]}, ${Format.percent(shares[best])}`;
  }

  static sure(share) {
    const words =
      share > 0.99 ? "and is sure" : share > 0.9 ? "and is quite sure" : share > 0.6 ? "but is not sure" : "but could be guessing";
    return `${words} (${Format.percent(share)})`;
  }

  number(output, truth) {
    const { name, mean, std } = this.input.target,
      value = output * std + mean;
    this.headline.replaceChildren(make("span", { textContent: `${name}: ` }), make("b", { textContent: Format.number(value) }));
    this.verdict.textContent = truth === null ? "" : `The true value of this sample is ${Format.number(truth * std + mean)}.`;
    return `${name} ${Format.number(value)}`;
  }
}
