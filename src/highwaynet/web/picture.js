"use strict";
// "Save picture": what the page shows of each network, as a PNG file.

const Picture = {
  draw(app) {
    const scale = 2,
      wide = 1240,
      views = app.views,
      heights = views.map((view) => Math.max(view.height, 240) + 130);
    const high = 130 + heights.reduce((sum, one) => sum + one, 0),
      canvas = make("canvas", { width: wide * scale, height: high * scale });
    const context = canvas.getContext("2d");
    context.scale(scale, scale);
    context.fillStyle = "#fff";
    context.fillRect(0, 0, wide, high);
    const text = (words, x, y, font = "14px system-ui, sans-serif", colour = "#1b1f24") => {
      context.font = font;
      context.fillStyle = colour;
      context.fillText(words, x, y);
    };
    text(Format.shortened(app.facts.title, 90), 24, 42, "600 22px system-ui, sans-serif");
    text(Format.shortened(`Input: ${app.sourceWords()}`, 120), 24, 66, undefined, "#59636e");
    if (app.pad) {
      const { seen } = app.pad;
      context.imageSmoothingEnabled = false;
      context.drawImage(
        seen,
        wide - 110,
        14,
        (86 * seen.width) / Math.max(seen.width, seen.height),
        (86 * seen.height) / Math.max(seen.width, seen.height),
      );
    }
    let top = 104;
    views.forEach((view, place) => {
      text(
        Format.shortened(`${view.network.title}: ${view.answerText || ""}. ${view.controls.score.textContent}.`, 130),
        24,
        top + 16,
        "600 15px system-ui, sans-serif",
      );
      text(Format.shortened(view.controls.state.textContent, 150), 24, top + 36, "13px system-ui, sans-serif", "#59636e");
      const panels = Object.values(view.panels),
        gap = 18,
        each = (wide - 48 - gap * (panels.length - 1)) / panels.length;
      panels.forEach((panel, at) => {
        const left = 24 + at * (each + gap);
        text(panel.title.textContent, left, top + 62, "600 12px system-ui, sans-serif");
        panel.paint(
          context,
          left,
          top + 70,
          each,
          Math.max(view.height, 240),
          { closed: (row) => view.isClosed(row), row: null, column: null, span: null },
          1,
        );
      });
      top += heights[place];
    });
    text("highwaynet", wide - 110, high - 16, "12px system-ui, sans-serif", "#59636e");
    return canvas;
  },

  save(app) {
    Picture.draw(app).toBlob((blob) => {
      const address = URL.createObjectURL(blob),
        link = make("a", { href: address, download: "explore.png" });
      document.body.append(link);
      link.click();
      link.remove();
      setTimeout(() => URL.revokeObjectURL(address), 10000);
      app.tell("The picture is saved as explore.png.");
    });
  },
};
