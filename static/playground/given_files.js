// Inputs that take a file: dropped anywhere on the input, taken back, and what is wrong with it said before it is sent.
// Without this script they are plain file fields.
(function () {
  "use strict";

  const inputs = document.querySelectorAll("[data-drop]");
  const holdsFiles = (event) => Array.from(event.dataTransfer.types).includes("Files");

  function follow(input) {
    const file = input.querySelector("[type=file]");
    const text = input.querySelector("textarea");
    const remove = input.querySelector("[data-remove-file]");
    const said = input.querySelector("[role=status]");

    function look() {
      const chosen = file.files[0];
      const both = chosen && text && text.value.trim() !== "";
      const tooLarge = chosen && chosen.size > Number(input.dataset.max);
      remove.hidden = !chosen;
      said.textContent = tooLarge ? said.dataset.tooLarge : both ? said.dataset.both : "";
    }

    function mark(event, over) {
      if (holdsFiles(event)) input.classList.toggle("is-over", over);
    }

    input.addEventListener("dragenter", (event) => mark(event, true));
    input.addEventListener("dragover", (event) => mark(event, true));
    input.addEventListener("dragleave", (event) => mark(event, input.contains(event.relatedTarget)));
    input.addEventListener("drop", (event) => {
      mark(event, false);
      if (!event.dataTransfer.files.length) return;
      event.preventDefault();
      // A field for one file takes the first of several.
      const first = new DataTransfer();
      first.items.add(event.dataTransfer.files[0]);
      file.files = first.files;
      look();
    });
    remove.addEventListener("click", () => {
      file.value = "";
      look();
      file.focus();
    });
    input.addEventListener("input", look);
    // A browser that goes back to the page may have kept the file.
    look();
  }

  inputs.forEach(follow);

  // A file that misses its input would take the place of the page, and of all that was typed.
  for (const name of ["dragover", "drop"]) {
    document.addEventListener(name, (event) => {
      if (holdsFiles(event) && !event.defaultPrevented) event.preventDefault();
    });
  }
})();
