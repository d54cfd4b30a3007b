// What every page of the playground can do: copy, switch between views of the same thing, open dialogs.
// Everything is hooked by data attributes and delegated, so fragments that arrive later work too.
(function () {
  "use strict";

  function flash(button, word) {
    const label = button.querySelector("span") || button;
    if (button.dataset.label === undefined) button.dataset.label = label.textContent;
    label.textContent = word;
    // Where there is no room for the word, the icon's color says it.
    button.dataset.flash = word;
    clearTimeout(button.flashTimer);
    button.flashTimer = setTimeout(() => {
      label.textContent = button.dataset.label;
      delete button.dataset.flash;
    }, 1500);
  }

  // A page that isn't served over https (or from this machine) has no clipboard of its own.
  function write(text) {
    if (navigator.clipboard && window.isSecureContext) return navigator.clipboard.writeText(text);
    const area = document.createElement("textarea");
    area.value = text;
    area.className = "pg-sr";
    document.body.append(area);
    area.select();
    const done = document.execCommand("copy");
    area.remove();
    return done ? Promise.resolve() : Promise.reject(new Error("copy refused"));
  }

  async function textOf(button) {
    if (button.dataset.copyUrl) {
      const response = await fetch(button.dataset.copyUrl);
      if (!response.ok) throw new Error(response.statusText);
      return response.text();
    }
    if ("copyLink" in button.dataset) return location.href;
    if (button.dataset.copy) return document.querySelector(button.dataset.copy).textContent;
    return button.dataset.copyText;
  }

  document.addEventListener("click", async (event) => {
    const copy = event.target.closest("[data-copy], [data-copy-text], [data-copy-url], [data-copy-link]");
    if (copy) {
      try {
        await write(await textOf(copy));
        flash(copy, "Copied");
      } catch {
        flash(copy, "Not copied");
      }
      return;
    }
    const dialog = event.target.closest("[data-dialog]");
    if (dialog) document.querySelector(dialog.dataset.dialog).showModal();

    // Buttons of one group show one of several elements: data-show is the selector of theirs.
    const show = event.target.closest("[data-show]");
    if (show) {
      for (const other of show.closest("[role=group]").querySelectorAll("[data-show]")) {
        const on = other === show;
        other.setAttribute("aria-pressed", on);
        document.querySelector(other.dataset.show).hidden = !on;
      }
    }
  });
})();
